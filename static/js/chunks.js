// Dialogs whose content came from the server: their Cancel closes them instead of leaving the page.
document.addEventListener("click", (event) => {
  const closer = event.target.closest("[data-close-dialog]");
  const dialog = closer?.closest("dialog[open]");
  if (!dialog) return;
  event.preventDefault();
  dialog.close();
});

// The safer button has the focus once the content is there.
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.target.closest?.("dialog[open]")) event.target.querySelector("[data-close-dialog]")?.focus();
});
