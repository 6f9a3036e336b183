// A swap never loses the focus: it returns to the same id, else to the next row, else to the page's heading.
let held = null;

export function remember() {
  const active = document.activeElement;
  if (!active || active === document.body) return null;
  const row = active.closest("tr[id], li[id], article[id]");
  return {
    id: active.id,
    name: active.getAttribute("name"),
    row: row?.id,
    next: row?.nextElementSibling?.id,
    start: typeof active.selectionStart === "number" ? [active.selectionStart, active.selectionEnd] : null,
  };
}

export function restore(memory) {
  if (!memory || (document.activeElement && document.activeElement !== document.body)) return;
  const row = memory.row && document.getElementById(memory.row);
  const next = memory.next && document.getElementById(memory.next);
  const target =
    (memory.id && document.getElementById(memory.id)) ||
    (row && ((memory.name && row.querySelector(`[name="${CSS.escape(memory.name)}"]`)) || row.querySelector("a, button"))) ||
    next?.querySelector("a, button") ||
    document.getElementById("page-title");
  target?.focus({ preventScroll: true });
  if (memory.start && target?.setSelectionRange) {
    try {
      target.setSelectionRange(...memory.start);
    } catch {
      // Some inputs (number, date) have no selection.
    }
  }
}

document.addEventListener("htmx:beforeSwap", () => (held = remember()));
document.addEventListener("htmx:afterSettle", () => {
  restore(held);
  held = null;
  document.querySelector("[data-focus]:not([data-focused])")?.focus();
});
