// The hit test: columns that fail say so on their own, ranks are compared once columns are there, tabs on narrow screens.
import { copyAddress } from "./passages.js";

function columns() {
  return [...document.querySelectorAll(".hit-column")];
}

// Where a passage stands in the other columns becomes known as they arrive.
function compare() {
  const ranks = {};
  for (const column of columns()) {
    if (!("loaded" in column.dataset)) continue;
    const own = (ranks[column.dataset.mode] = {});
    for (const card of column.querySelectorAll("[data-chunk]")) own[card.dataset.chunk] = card.dataset.rank;
  }
  for (const place of document.querySelectorAll("[data-elsewhere][data-unknown]")) {
    const known = ranks[place.dataset.elsewhere];
    if (!known) continue;
    const rank = known[place.closest("[data-chunk]").dataset.chunk];
    place.querySelector("[data-text]").textContent = rank ? `#${rank}` : "—";
    place.removeAttribute("data-unknown");
  }
}

function failed(event) {
  const column = event.target.closest?.(".hit-column");
  if (!column) return;
  const message = document.getElementById("column-failed").content.firstElementChild.cloneNode(true);
  message.querySelector("[data-trace]").textContent = event.detail.xhr?.getResponseHeader?.("X-Request-Id") ?? "—";
  column.querySelector(".waiting")?.remove();
  column.querySelector("[role=alert]")?.remove();
  column.removeAttribute("aria-busy");
  column.append(message);
}

// -- tabs: automatic activation by arrows, as in the APG --

const narrow = matchMedia("(max-width: 1023px)");

function arrange() {
  const list = document.querySelector(".hit-tabs");
  if (!list) return;
  list.hidden = false;
  const current = list.querySelector("[aria-selected=true]")?.dataset.tab ?? "blend";
  for (const column of columns()) {
    if (narrow.matches) {
      column.setAttribute("role", "tabpanel");
      column.setAttribute("aria-labelledby", `tab-${column.dataset.mode}`);
    } else {
      column.removeAttribute("role");
      column.setAttribute("aria-labelledby", `column-${column.dataset.mode}-title`);
    }
  }
  list.parentElement.querySelector(".hit-columns").dataset.current = current;
}

function choose(tab) {
  for (const other of tab.parentElement.children) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", String(chosen));
    other.tabIndex = chosen ? 0 : -1;
  }
  const address = new URL(location.href);
  address.searchParams.set("tab", tab.dataset.tab);
  history.replaceState(history.state, "", address);
  arrange();
}

document.addEventListener("click", (event) => {
  const tab = event.target.closest(".hit-tabs [role=tab]");
  if (tab) choose(tab);
  const again = event.target.closest("[data-again]");
  if (again) {
    const column = again.closest(".hit-column");
    again.closest("[role=alert]").remove();
    column.setAttribute("aria-busy", "true");
    column.dispatchEvent(new CustomEvent("again"));
    column.querySelector("h3").setAttribute("tabindex", "-1");
    column.querySelector("h3").focus({ preventScroll: true });
  }
});

document.addEventListener("keydown", (event) => {
  const tab = event.target.closest?.(".hit-tabs [role=tab]");
  if (!tab) return;
  const all = [...tab.parentElement.children];
  const place = all.indexOf(tab);
  const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: all.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  const target = all[(next + all.length) % all.length];
  choose(target);
  target.focus();
});

document.addEventListener("htmx:responseError", failed);
document.addEventListener("htmx:sendError", failed);
document.addEventListener("htmx:timeout", failed);
document.addEventListener("htmx:afterSettle", () => {
  arrange();
  compare();
  copyAddress();
});
narrow.addEventListener("change", arrange);
arrange();
compare();
