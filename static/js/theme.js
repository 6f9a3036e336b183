// The theme changes at once and is then saved; without scripts the same buttons post their form.
import { csrf } from "./text.js";

document.addEventListener("submit", (event) => {
  const form = event.target.closest("[data-theme-choice]");
  if (!form || !event.submitter) return;
  event.preventDefault();
  const theme = event.submitter.value;
  document.documentElement.dataset.theme = theme;
  for (const button of document.querySelectorAll("[data-theme-choice] button[name=theme]")) {
    button.setAttribute("aria-pressed", String(button.value === theme));
  }
  form.closest("details")?.removeAttribute("open");
  const body = new URLSearchParams({ theme });
  fetch(form.action, { method: "POST", body, headers: { "X-CSRFToken": csrf(), Accept: "application/json" } }).catch(
    () => {},
  );
});
