// Ask: Enter sends, drafts survive a reload, the answer arrives without one, ratings show at once.
import { follow, followed, stopFollowing } from "./answers.js";
import { copyAddress } from "./passages.js";
import { announce, csrf, fill } from "./text.js";
import { toast } from "./toast.js";

const form = document.getElementById("composer");
const box = document.getElementById("question");
const turns = document.getElementById("turns");
const stop = document.getElementById("stop");
const send = document.getElementById("send");

// -- drafts: one per person and thread, until sent --

function draftKey() {
  const thread = document.getElementById("composer-thread").value;
  return `draft:${form.dataset.draft}:${document.body.dataset.person}:${thread || "new"}`;
}

function keepDraft() {
  try {
    if (box.value.trim()) localStorage.setItem(draftKey(), box.value);
    else localStorage.removeItem(draftKey());
  } catch {
    // Storage may be off: then there are no drafts.
  }
}

function takeDraft() {
  try {
    if (!box.value) box.value = localStorage.getItem(draftKey()) ?? "";
  } catch {
    // As above.
  }
}

// -- sending --

let pending = null;

function begin() {
  turns.querySelectorAll(":scope > .notice").forEach((notice) => notice.remove());
  pending = document.getElementById("pending-turn").content.firstElementChild.cloneNode(true);
  pending.querySelector("[data-question]").textContent = box.value.trim();
  document.getElementById("ask-empty")?.setAttribute("hidden", "");
  turns.append(pending);
  turns.setAttribute("aria-busy", "true");
  announce(form.dataset.searching);
  send.hidden = true;
  stop.hidden = false;
  pending.scrollIntoView({ block: "start" });
}

function end() {
  pending?.remove();
  pending = null;
  turns.removeAttribute("aria-busy");
  send.hidden = false;
  stop.hidden = true;
}

function giveUp() {
  end();
  if (!turns.children.length) document.getElementById("ask-empty")?.removeAttribute("hidden");
}

function arrived() {
  const turn = turns.querySelector("[data-arrived]");
  if (!turn) return;
  turn.removeAttribute("data-arrived");
  document.getElementById("ask-empty")?.remove();
  if (turn.querySelector("[data-follow]")) write(turn);
  else ready(turn);
  fold();
  copyAddress();
}

function ready(turn) {
  const number = Number(turn.dataset.citations);
  announce(number ? fill(form.dataset.ready, { n: number }) : form.dataset.none);
}

// An answer that a model writes: the button stops it until it has ended.
async function write(turn) {
  announce(form.dataset.answering);
  send.hidden = true;
  stop.hidden = false;
  const ended = await follow(turn);
  if (!followed()) {
    send.hidden = false;
    stop.hidden = true;
  }
  if (ended) ready(ended);
  copyAddress();
}

if (form) {
  turns.querySelectorAll("[data-follow]").forEach((box) => write(box.closest("[data-turn]")));
  takeDraft();
  box.addEventListener("input", keepDraft);
  box.addEventListener("keydown", (event) => {
    // An input method's Enter chooses a word: it never sends.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    if (followed()) return;
    if (!event.ctrlKey && !event.metaKey && box.value.trim()) form.requestSubmit(send);
  });
  // Wiped before the answer is swapped in: only now is it known that the question has arrived.
  turns.addEventListener("htmx:beforeSwap", (event) => {
    if (event.target !== turns) return;
    const { xhr } = event.detail;
    if (xhr.status !== 200) {
      event.detail.shouldSwap = xhr.status >= 400;
      giveUp();
      return;
    }
    const key = draftKey();
    end();
    box.value = "";
    try {
      localStorage.removeItem(key);
    } catch {
      // As above.
    }
  });
  form.addEventListener("htmx:beforeRequest", (event) => event.target === form && begin());
  // These come from the target as well as from the form.
  const ours = (event) => pending && event.detail.requestConfig?.elt === form;
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, (event) => {
      if (!ours(event)) return;
      giveUp();
      const message = document.getElementById("ask-offline").content.firstElementChild.cloneNode(true);
      turns.append(message);
    });
  }
  document.addEventListener("htmx:sendAbort", (event) => {
    if (!ours(event)) return;
    giveUp();
    announce(form.dataset.stopped);
    box.focus();
  });
  stop.addEventListener("click", () => (pending ? form.dispatchEvent(new CustomEvent("htmx:abort")) : stopFollowing()));
  document.addEventListener("htmx:afterSettle", arrived);

  form.addEventListener("change", (event) => {
    if (event.target.name !== "base") return;
    const names = [...form.querySelectorAll("input[name=base]:checked")].map((input) =>
      input.closest("label").textContent.trim(),
    );
    const place = form.querySelector("[data-scope]");
    place.textContent = names.join(", ") || place.dataset.all;
  });

  document.getElementById("examples")?.addEventListener("submit", (event) => {
    // The same form asks, so that the answer arrives without a reload.
    event.preventDefault();
    event.stopPropagation();
    box.value = event.submitter.value;
    form.requestSubmit(send);
  }, true);

  if (matchMedia("(pointer: fine)").matches && !location.hash.startsWith("#m_")) box.focus({ preventScroll: true });
}

// -- ratings: shown at once, taken back when the server did not take them --

document.addEventListener("submit", async (event) => {
  const rate = event.target.closest("[data-rate]");
  if (!rate || !event.submitter) return;
  event.preventDefault();
  event.stopPropagation();
  const buttons = [...rate.querySelectorAll("button[name=helpful]")];
  const before = buttons.map((button) => button.getAttribute("aria-pressed"));
  const pressed = event.submitter.getAttribute("aria-pressed") === "true";
  const show = (states) => {
    buttons.forEach((button, at) => {
      button.setAttribute("aria-pressed", states[at]);
      button.value = states[at] === "true" ? "" : button.dataset.value;
    });
  };
  show(buttons.map((button) => String(!pressed && button === event.submitter)));
  const body = new URLSearchParams({ helpful: pressed ? "" : event.submitter.dataset.value });
  try {
    const answer = await fetch(rate.action, { method: "POST", body, headers: { "X-CSRFToken": csrf(), Accept: "application/json" } });
    if (!answer.ok) throw new Error(String(answer.status));
  } catch {
    show(before);
    document.getElementById("live-alert").textContent = rate.dataset.failed;
    rate.nextElementSibling?.matches("[data-rate-failed]") || rate.after(failure(rate.dataset.failed));
  }
}, true);

function failure(text) {
  const note = document.createElement("span");
  note.className = "bad small";
  note.dataset.rateFailed = "";
  note.textContent = text;
  return note;
}

// -- undo of a deleted thread: as a toast --

const undo = document.querySelector("[data-undo]");
if (undo) {
  toast(undo.querySelector("[data-text]").textContent, undo.querySelector("form"));
  undo.remove();
}

// -- the list of threads: beside the talk where there is room, folded above it where there is none --

const narrow = matchMedia("(max-width: 1023px)");

function fold() {
  document.getElementById("threads")?.toggleAttribute("open", !narrow.matches);
}

narrow.addEventListener("change", fold);
fold();
