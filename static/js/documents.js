// The document list: filters submit on change, deleted rows can be undone, rows of gone documents leave.
import { toast } from "./toast.js";
import { announce, csrf } from "./text.js";
import { refetchSoon } from "./live.js";
import { refreshAll } from "./select.js";

const filters = document.querySelector("[data-filter-form]");
const anySelected = () => document.querySelector("input[data-select-row]:checked");

filters?.addEventListener("change", (event) => {
  if (event.target.matches("select")) filters.requestSubmit();
});
filters?.addEventListener("submit", () => {
  // Empty fields would only lengthen the address.
  for (const field of filters.elements) if (field.name && !field.value) field.disabled = true;
  if (anySelected()) remember();
});
addEventListener("pageshow", () => {
  for (const field of filters?.elements ?? []) field.disabled = false;
});

function remember() {
  try {
    sessionStorage.setItem("selection-cleared", "yes");
  } catch {
    // Without storage nothing is said.
  }
}

try {
  if (sessionStorage.getItem("selection-cleared")) {
    sessionStorage.removeItem("selection-cleared");
    if (filters) setTimeout(() => announce(filters.dataset.cleared), 500);
  }
} catch {
  // Storage may be off.
}

// -- undo --

function undoToast(text, form) {
  form.removeAttribute("data-undo");
  form.hidden = false;
  toast(text, form);
}

const kept = document.querySelector("[data-undo]");
if (kept) {
  const text = kept.querySelector(".grow").textContent;
  kept.querySelector(":scope > .icon")?.remove();
  kept.querySelector(".grow").remove();
  kept.className = "";
  kept.remove();
  undoToast(text, kept);
}

document.addEventListener("archway:undo", (event) => {
  const { ids, text } = event.detail;
  const template = document.getElementById("undo-template");
  if (!template) return;
  const form = template.content.firstElementChild.cloneNode(true);
  form.querySelector("input[name=csrfmiddlewaretoken]").value = csrf();
  for (const id of ids) {
    const input = document.createElement("input");
    Object.assign(input, { type: "hidden", name: "ids", value: id });
    form.append(input);
  }
  undoToast(text, form);
  refreshAll();
  if (!document.querySelector("tr[data-row-url]")) refetchSoon();
});

// -- rows --

// A document that was deleted elsewhere, or is no longer shared: its row goes.
document.addEventListener("htmx:responseError", (event) => {
  const row = event.detail.target?.closest?.("tr[data-row-url]");
  if (row && event.detail.xhr.status === 404) {
    row.remove();
    refreshAll();
  }
});

// Restarting by hand counts attempts from the beginning: within a topic the frame's number alone tells what is newer.
document.addEventListener("archway:event", (event) => {
  const frame = event.detail;
  if (frame.type !== "document.progress") return;
  const row = document.getElementById(`doc-${frame.doc}`);
  if (!row || Number(row.dataset.rev) !== frame.rev) return;
  if (frame.seq > Number(row.dataset.seq) && frame.attempt < Number(row.dataset.attempt)) row.dataset.attempt = frame.attempt;
});

// A row that is swapped keeps its tick.
let ticked = null;
document.addEventListener("htmx:beforeSwap", (event) => {
  const row = event.detail.target?.closest?.("tr[data-row-url]");
  ticked = row?.querySelector("input[data-select-row]")?.checked ? row.id : null;
});
document.addEventListener("htmx:afterSwap", () => {
  const box = ticked && document.getElementById(ticked)?.querySelector("input[data-select-row]");
  if (box) box.checked = true;
  ticked = null;
});
