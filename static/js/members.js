// A select with many people becomes an editable combobox with a list (ARIA APG): type, arrows, Enter, Escape.
// Suggestions come from the server, so that a large workspace is not sent along with the page.
const PLAIN = 15;

function enhance(select) {
  if (select.options.length - 1 <= PLAIN) return;
  const { url, none, placeholder } = select.dataset;
  const box = document.createElement("div");
  box.className = "combobox";
  const input = document.createElement("input");
  Object.assign(input, { type: "text", id: select.id, autocomplete: "off", placeholder, required: true });
  for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-controls": "subject-list", "aria-autocomplete": "list" })) {
    input.setAttribute(name, value);
  }
  for (const name of ["aria-invalid", "aria-describedby"]) {
    if (select.hasAttribute(name)) input.setAttribute(name, select.getAttribute(name));
  }
  const hidden = Object.assign(document.createElement("input"), { type: "hidden", name: select.name, value: select.value });
  const list = Object.assign(document.createElement("ul"), { id: "subject-list", className: "combobox__list", hidden: true });
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-labelledby", "subject-label");
  if (select.value) input.value = select.selectedOptions[0].textContent.trim();
  box.append(input, hidden, list);
  select.replaceWith(box);

  let active = -1;
  let timer = 0;
  let asked = 0;
  const options = () => [...list.querySelectorAll("[role=option]")];

  function close() {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function choose(option) {
    hidden.value = option.dataset.value;
    input.value = option.dataset.name;
    input.setCustomValidity("");
    close();
  }

  function point(place) {
    const all = options();
    active = all.length ? (place + all.length) % all.length : -1;
    all.forEach((option, index) => option.setAttribute("aria-selected", String(index === active)));
    if (active < 0) return;
    all[active].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", all[active].id);
  }

  async function suggest() {
    const mine = (asked += 1);
    let found = [];
    try {
      const response = await fetch(`${url}?q=${encodeURIComponent(input.value)}`, { headers: { Accept: "application/json" } });
      if (response.ok) found = (await response.json()).options;
    } catch {
      // Offline: the list says that there are no matches.
    }
    if (mine !== asked) return;
    list.replaceChildren(
      ...found.map((one, place) => {
        const option = document.createElement("li");
        option.id = `subject-${place}`;
        Object.assign(option.dataset, { value: one.value, name: one.name });
        option.setAttribute("role", "option");
        option.setAttribute("aria-selected", "false");
        const detail = Object.assign(document.createElement("span"), { className: "muted small", textContent: one.detail });
        option.append(one.name, detail);
        return option;
      }),
    );
    if (!found.length) list.append(Object.assign(document.createElement("li"), { className: "muted", textContent: none }));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    active = -1;
  }

  input.addEventListener("input", () => {
    hidden.value = "";
    clearTimeout(timer);
    timer = setTimeout(suggest, 150);
  });
  input.addEventListener("focus", () => hidden.value || suggest());
  input.addEventListener("blur", () => setTimeout(close, 150));
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) suggest();
      else point(event.key === "ArrowDown" ? active + 1 : active < 0 ? -1 : active - 1);
    } else if (event.key === "Enter" && !list.hidden && active >= 0) {
      event.preventDefault();
      choose(options()[active]);
    } else if (event.key === "Escape" && !list.hidden) {
      event.stopPropagation();
      close();
    }
  });
  list.addEventListener("pointerdown", (event) => {
    const option = event.target.closest("[role=option]");
    event.preventDefault();
    if (option) choose(option);
  });
}

document.querySelectorAll("select[data-combobox]").forEach(enhance);
