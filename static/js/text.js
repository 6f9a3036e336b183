// Words come from the page (data attributes), so that there is one catalogue; this fills their placeholders.
export function fill(sentence, values) {
  return sentence.replace(/%\((\w+)\)[sd]/g, (whole, name) => (name in values ? values[name] : whole));
}

export function number(value) {
  return new Intl.NumberFormat(document.documentElement.lang).format(value);
}

// Reads out politely what changed; the same text twice is said twice.
export function announce(text) {
  const region = document.getElementById("live-status");
  if (!region) return;
  region.textContent = "";
  requestAnimationFrame(() => (region.textContent = text));
}

export function csrf() {
  const headers = document.body.getAttribute("hx-headers");
  if (headers) return JSON.parse(headers)["X-CSRFToken"];
  return document.querySelector("input[name=csrfmiddlewaretoken]")?.value ?? "";
}
