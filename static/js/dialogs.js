// Dialogs: `data-open-dialog="id"` opens one; `data-confirm` on a submit button and `hx-confirm` ask first.
// A confirmation names the object and the consequence; focus starts on the safer button and returns to the opener.

export function open(dialog) {
  const opener = document.activeElement;
  dialog.addEventListener("close", () => opener?.isConnected && opener.focus({ preventScroll: true }), { once: true });
  dialog.showModal();
}

// Resolves to true when the person chose the verb. `tone` is "danger" or "primary".
export function ask({ title, body = "", verb = "", tone = "danger" }) {
  const dialog = document.getElementById("confirm");
  const button = dialog.querySelector("[data-verb]");
  dialog.querySelector("#confirm-title").textContent = title;
  dialog.querySelector("#confirm-body").textContent = body;
  button.textContent = verb || button.dataset.default;
  button.className = `button button--${tone}`;
  dialog.returnValue = "";
  open(dialog);
  dialog.querySelector("[data-safe]").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

function question(element) {
  const data = element.dataset;
  return { title: data.confirm, body: data.confirmBody, verb: data.confirmVerb, tone: data.confirmTone || "danger" };
}

document.addEventListener("click", async (event) => {
  const opener = event.target.closest("[data-open-dialog]");
  if (opener) {
    const dialog = document.getElementById(opener.dataset.openDialog);
    if (!dialog) return;
    event.preventDefault();
    open(dialog);
    return;
  }
  if (event.target.matches("dialog")) {
    // A click on the backdrop: outside the box of the dialog itself.
    const box = event.target.getBoundingClientRect();
    const inside =
      event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
    if (!inside && event.clientX + event.clientY > 0) event.target.close("");
    return;
  }
  const button = event.target.closest("[data-confirm]");
  if (!button || button.dataset.confirmed) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  if (!(await ask(question(button)))) return;
  button.dataset.confirmed = "yes";
  // Servers that ask for themselves where no script has asked look at this.
  if (button.name === "confirmed") button.value = "yes";
  if (button.form && button.type === "submit") button.form.requestSubmit(button);
  else button.click();
  delete button.dataset.confirmed;
}, true);

document.addEventListener("htmx:confirm", async (event) => {
  if (!event.detail.question) return;
  event.preventDefault();
  const data = event.detail.elt.dataset;
  const said = { title: event.detail.question, body: data.confirmBody, verb: data.confirmVerb, tone: data.confirmTone };
  if (await ask({ ...said, tone: said.tone || "danger" })) event.detail.issueRequest(true);
});
