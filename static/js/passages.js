// Passages: buttons that copy an address. They are hidden until scripts can serve them.
export function copyAddress() {
  for (const button of document.querySelectorAll("[data-copy-address][hidden]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy-address]");
  if (!button) return;
  const address = new URL(button.dataset.copyAddress, location.href).href;
  const label = button.querySelector("[data-text]");
  const before = button.dataset.before ?? label.textContent;
  button.dataset.before = before;
  try {
    await navigator.clipboard.writeText(address);
    label.textContent = button.dataset.copied;
  } catch {
    // No clipboard without HTTPS: show the address, selected, so that Ctrl+C takes it.
    label.textContent = address;
    getSelection().selectAllChildren(label);
    return;
  }
  setTimeout(() => (label.textContent = before), 3000);
});

copyAddress();
