// Forms: busy buttons keep their width, focused error summaries, Ctrl+Enter, show password, copy, submit on change.

function busy(button) {
  if (!button || button.hasAttribute("data-no-busy")) return;
  button.style.minWidth = `${button.offsetWidth}px`;
  button.setAttribute("aria-disabled", "true");
  button.setAttribute("aria-busy", "true");
  if (button.dataset.busy) {
    button.dataset.idle = button.innerHTML;
    button.textContent = button.dataset.busy;
  }
}

function idle(button) {
  button.removeAttribute("aria-disabled");
  button.removeAttribute("aria-busy");
  if (button.dataset.idle !== undefined) {
    button.innerHTML = button.dataset.idle;
    delete button.dataset.idle;
  }
}

document.addEventListener("submit", (event) => {
  if (event.defaultPrevented) return;
  const button = event.submitter;
  if (button?.getAttribute("aria-disabled") === "true") {
    event.preventDefault();
    return;
  }
  if (event.target.method !== "dialog") busy(button);
  if (event.target.hasAttribute("data-sign-out")) forgetDrafts();
});

// htmx takes its forms over, and pages may come back from the browser's cache.
document.addEventListener("htmx:afterRequest", () => document.querySelectorAll("[aria-busy=true].button").forEach(idle));
addEventListener("pageshow", () => document.querySelectorAll("[aria-busy=true].button").forEach(idle));

// Drafts of questions are kept under `draft:` until sent, and erased at sign-out.
function forgetDrafts() {
  try {
    Object.keys(localStorage).filter((key) => key.startsWith("draft:")).forEach((key) => localStorage.removeItem(key));
  } catch {
    // Storage may be off: then there are no drafts.
  }
}

document.addEventListener("click", async (event) => {
  const reveal = event.target.closest("[data-reveal]");
  if (reveal) {
    const input = document.getElementById(reveal.dataset.reveal);
    const shown = input.type === "text";
    input.type = shown ? "password" : "text";
    reveal.textContent = shown ? reveal.dataset.show : reveal.dataset.hide;
    reveal.setAttribute("aria-pressed", String(!shown));
    return;
  }
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    const source = document.getElementById(copy.dataset.copy);
    await write(source);
    const label = copy.querySelector("[data-text]") ?? copy;
    const before = label.textContent;
    label.textContent = copy.dataset.copied;
    setTimeout(() => (label.textContent = before), 3000);
  }
});

async function write(source) {
  const text = source.value ?? source.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // No clipboard without HTTPS: select the text, so that Ctrl+C takes it.
    const range = document.createRange();
    range.selectNodeContents(source);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    document.execCommand("copy");
  }
}

document.addEventListener("change", (event) => {
  event.target.closest("[data-submit-on-change]")?.requestSubmit();
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing && event.keyCode !== 229) {
    const form = event.target.form;
    if (form) {
      event.preventDefault();
      form.requestSubmit();
    }
  }
});

document.querySelector("[data-focus]")?.focus();
