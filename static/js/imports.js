// The import of a large archive: its file goes in pieces (resumable.js) and goes on after a reload. A small one, and
// every one without scripts, is an ordinary form.
import { FROM, Resumable } from "./resumable.js";

const form = document.getElementById("import-form");
const panel = document.getElementById("import-progress");
const buttons = document.getElementById("import-buttons");
const failed = document.getElementById("import-failed");
const words = panel.dataset;
let upload = null;

const megabytes = (bytes) => new Intl.NumberFormat(document.documentElement.lang, { style: "unit", unit: "megabyte", maximumFractionDigits: 0 }).format(bytes / 1e6);

function show(state) {
  panel.querySelector("[data-said]").textContent = words[state];
  panel.querySelector("[data-pause]").hidden = state === "saving";
  panel.querySelector("[data-pause-word]").hidden = state === "paused";
  panel.querySelector("[data-go-word]").hidden = state !== "paused";
  const bar = panel.querySelector("[data-bar]");
  if (state === "saving") bar.removeAttribute("value");
}

function open(running) {
  panel.hidden = !running;
  buttons.hidden = running;
  for (const field of form.querySelectorAll("input, select")) field.disabled = running;
}

function progress(sent, total) {
  panel.querySelector("[data-bar]").value = (100 * sent) / total;
  panel.querySelector("[data-sent]").textContent = `${megabytes(sent)} / ${megabytes(total)}`;
}

form.addEventListener(
  "submit",
  (event) => {
    const file = form.elements.file.files[0];
    if (!file || file.size < FROM) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const facts = { path: file.name, folder: "", name: form.elements.name.value, embedding: form.elements.embedding?.value ?? "" };
    upload = new Resumable(file, facts, form.dataset.piecesUrl, { state: show, progress });
    failed.hidden = true;
    open(true);
    upload.send().then(
      () => location.assign(form.dataset.after),
      (error) => {
        upload = null;
        open(false);
        if (!error) return;
        failed.querySelector("span").textContent = error.answer?.title || words.failed;
        failed.hidden = false;
      },
    );
  },
  true,
);

panel.querySelector("[data-pause]").addEventListener("click", () => {
  if (upload?.paused) {
    show("sending");
    upload.go();
  } else upload?.pause();
});

panel.querySelector("[data-give-up]").addEventListener("click", () => upload?.abort());

addEventListener("beforeunload", (event) => {
  if (upload && !upload.ended) event.preventDefault();
});
