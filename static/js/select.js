// Selecting rows: <form data-select data-total="1240"> with a `.bulk` bar. See static/README.md for the markup.
// "On this page" and "all matching" are told apart; all-matching sends the filter, the count and the exclusions.
import { announce, fill, number } from "./text.js";

const rowsOf = (form) => [...form.querySelectorAll("input[data-select-row]")];

function setAll(form, on) {
  form.querySelector("input[name=scope]").value = on ? "all" : "ids";
  if (!on) form.querySelectorAll("input[name=exclude]").forEach((input) => input.remove());
}

function isAll(form) {
  return form.querySelector("input[name=scope]")?.value === "all";
}

function refresh(form) {
  const bar = form.querySelector(".bulk");
  if (!bar) return;
  const rows = rowsOf(form);
  const checked = rows.filter((row) => row.checked).length;
  const total = Number(form.dataset.total);
  const all = isAll(form);
  const excluded = form.querySelectorAll("input[name=exclude]").length;
  const n = all ? total - excluded : checked;
  bar.hidden = n === 0;
  const summary = bar.querySelector("[data-select-summary]");
  const said = fill(all ? summary.dataset.allText : summary.dataset.pageText, { n: number(n) });
  if (summary.textContent !== said) {
    summary.textContent = said;
    if (n) announce(said);
  }
  const more = bar.querySelector("[data-select-all]");
  if (more) more.hidden = all || checked < rows.length || total <= rows.length;
  const page = form.querySelector("[data-select-page]");
  if (page) {
    page.checked = rows.length > 0 && checked === rows.length;
    page.indeterminate = checked > 0 && checked < rows.length;
  }
  // More than twenty at once is asked about first.
  for (const button of bar.querySelectorAll("[data-confirm-over]")) {
    if (n > Number(button.dataset.confirmOver)) button.dataset.confirm = fill(button.dataset.confirmText, { n: number(n) });
    else if (button.dataset.confirmText) delete button.dataset.confirm;
  }
}

function exclude(form, row) {
  const same = [...form.querySelectorAll("input[name=exclude]")].find((input) => input.value === row.value);
  if (row.checked) same?.remove();
  else if (!same) {
    const input = document.createElement("input");
    Object.assign(input, { type: "hidden", name: "exclude", value: row.value });
    form.append(input);
  }
}

document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-select]");
  if (!form) return;
  if (event.target.matches("[data-select-page]")) {
    for (const row of rowsOf(form)) {
      row.checked = event.target.checked;
      if (isAll(form)) exclude(form, row);
    }
  } else if (event.target.matches("[data-select-row]") && isAll(form)) {
    exclude(form, event.target);
  }
  refresh(form);
});

document.addEventListener("click", (event) => {
  const form = event.target.closest("form[data-select]");
  if (!form) return;
  const all = event.target.closest("[data-select-all]");
  const clear = event.target.closest("[data-select-clear]");
  if (!all && !clear) return;
  event.preventDefault();
  setAll(form, Boolean(all));
  rowsOf(form).forEach((row) => (row.checked = Boolean(all)));
  refresh(form);
});

export function refreshAll() {
  document.querySelectorAll("form[data-select]").forEach(refresh);
}

document.addEventListener("htmx:afterSettle", refreshAll);
addEventListener("pageshow", refreshAll);
