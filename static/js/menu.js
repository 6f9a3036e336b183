// Small menus are <details data-menu>: one open at a time, closed by a click elsewhere or Escape, arrows move inside.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details[data-menu][open]")) {
    if (!menu.contains(event.target)) menu.removeAttribute("open");
  }
});

document.addEventListener("keydown", (event) => {
  const menu = event.target.closest?.("details[data-menu][open]");
  if (!menu) return;
  const summary = menu.querySelector("summary");
  if (event.key === "Escape") {
    menu.removeAttribute("open");
    summary.focus();
    event.stopPropagation();
    return;
  }
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const items = [...menu.querySelectorAll(".menu__item")];
  const place = items.indexOf(document.activeElement);
  const next = event.key === "ArrowDown" ? place + 1 : place < 0 ? items.length - 1 : place - 1;
  items[(next + items.length) % items.length]?.focus();
  event.preventDefault();
});
