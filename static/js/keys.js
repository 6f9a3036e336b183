// Shortcuts: / search, g then b|a|t|h, j k x Enter on rows, ? help. Off in fields, dialogs, and by preference.
import { open } from "./dialogs.js";

const PLACES = { h: "/", b: "/bases/", a: "/ask/", t: "/tasks/" };
let waiting = 0;

const inField = (element) => element.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");

function rows() {
  return [...document.querySelectorAll("[data-rows] > tr, [data-rows] > li")];
}

function move(step) {
  const all = rows();
  if (!all.length) return;
  const place = all.indexOf(document.activeElement?.closest("tr, li"));
  const row = all[Math.min(all.length - 1, Math.max(0, place + step))];
  (row.querySelector("th a, .table__name a, a") ?? row.querySelector("button, input"))?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.body.dataset.letterKeys !== "on" || inField(event.target) || document.querySelector("dialog[open]")) return;
  const afterG = Date.now() - waiting < 1500;
  waiting = 0;
  if (afterG && PLACES[event.key]) {
    location.assign(PLACES[event.key]);
  } else if (event.key === "g") {
    waiting = Date.now();
  } else if (event.key === "/") {
    const search = document.querySelector("main input[type=search]") ?? document.querySelector("[data-page-search]");
    event.preventDefault();
    search?.focus();
    search?.select();
  } else if (event.key === "?") {
    open(document.getElementById("shortcuts"));
  } else if (event.key === "j") {
    move(1);
  } else if (event.key === "k") {
    move(-1);
  } else if (event.key === "x") {
    event.target.closest("tr, li")?.querySelector("input[data-select-row]")?.click();
  }
});
