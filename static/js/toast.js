// Toasts: success or undo, gone after eight seconds, longer while pointed at or focused. Errors never come this way.
const LIFE = 8000;

function start(toast) {
  let timer;
  const run = () => (timer = setTimeout(() => toast.remove(), LIFE));
  const stop = () => clearTimeout(timer);
  toast.addEventListener("pointerenter", stop);
  toast.addEventListener("pointerleave", run);
  toast.addEventListener("focusin", stop);
  toast.addEventListener("focusout", run);
  run();
}

// `action`: an element of the caller (an undo button or form) that stands beside the text.
export function toast(text, action) {
  const node = document.getElementById("toast-template").content.firstElementChild.cloneNode(true);
  node.querySelector("[data-text]").textContent = text;
  if (action) node.querySelector("[data-dismiss-toast]").before(action);
  document.getElementById("toasts").append(node);
  const status = document.getElementById("live-status");
  if (status) status.textContent = text;
  start(node);
  return node;
}

document.querySelectorAll("[data-toast]").forEach(start);
document.addEventListener("click", (event) => event.target.closest("[data-dismiss-toast]")?.closest("[data-toast]").remove());
document.addEventListener("archway:toast", (event) => toast(event.detail.text));
