// Uploads: three at a time, a bar for each, failures first. Files come from the button, a folder, or a drop anywhere.
// The page's words stand in data attributes of the tray; the server decides about every file anew.
import { fromDrop, fromInput, setJunk, sorted } from "./chosen_files.js";
import { FROM, Resumable } from "./resumable.js";
import { announce, csrf, fill } from "./text.js";

const tray = document.getElementById("upload-tray");
const list = document.getElementById("tray-list");
const words = tray?.dataset ?? {};
const limits = JSON.parse(words.limits || "{}");
const PARALLEL = 3;
const OPEN = new Set(["waiting", "sending", "saving", "offline", "paused"]);
const GOOD = new Set(["created", "revision", "reactivated", "skipped"]);
const FINAL = new Set(["duplicate", "unsupported_type", "type_mismatch", "empty_file", "upload_over"]);
const ORDER = { failed: 0, offline: 1, paused: 1, sending: 2, saving: 2, waiting: 3 };
const MOST = Number(words.maxFiles);
const items = [];
let leftOut = 0;
setJunk(JSON.parse(words.junk || '{"names":[],"starts":[],"folders":[]}'));
// On the upload page files wait until the form is sent; elsewhere they go at once.
const form = document.querySelector("[data-upload-form]");
let held = Boolean(form);

const size = (bytes) => {
  const units = ["B", "kB", "MB", "GB"];
  let place = 0;
  let value = bytes;
  while (value >= 1000 && place < 3) {
    value /= 1000;
    place += 1;
  }
  return `${new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: place > 1 ? 1 : 0 }).format(value)} ${units[place]}`;
};

// -- one file --

function refusal(file) {
  const extension = file.name.includes(".") ? file.name.split(".").pop().toLowerCase() : "";
  if (!(extension in limits)) return words.textType;
  if (file.size > limits[extension] * 1_048_576) return fill(words.textLarge, { limit: limits[extension] });
  if (file.size === 0) return words.textEmpty;
  return "";
}

function add(file, path, sameName) {
  const row = document.getElementById("tray-row").content.firstElementChild.cloneNode(true);
  const item = { file, path, sameName, row, state: "", request: null };
  row.querySelector("[data-name]").textContent = path;
  row.querySelector("[data-size]").textContent = size(file.size);
  row.querySelector("[data-row-remove]").addEventListener("click", () => remove(item));
  row.querySelector("[data-row-retry]").addEventListener("click", () => again(item));
  row.querySelector("[data-row-pause]").addEventListener("click", () => pause(item));
  items.push(item);
  const problem = refusal(file);
  item.final = Boolean(problem);
  show(item, problem ? "failed" : "waiting", problem || words.textWaiting);
}

function show(item, state, said) {
  item.state = state;
  item.row.dataset.state = state;
  item.row.querySelector("[data-said]").textContent = said;
  item.row.querySelector("[data-row-retry]").hidden = state !== "failed" || item.final;
  item.said = said;
  const bar = item.row.querySelector("[data-bar]");
  bar.hidden = !["sending", "saving", "paused"].includes(state) && !(state === "offline" && item.pieces);
  if (state === "saving") bar.removeAttribute("value");
  const button = item.row.querySelector("[data-row-pause]");
  button.hidden = !item.pieces || !["sending", "paused", "offline"].includes(state);
  button.querySelector("[data-pause-word]").hidden = state === "paused";
  button.querySelector("[data-go-word]").hidden = state !== "paused";
  refresh();
}

function pause(item) {
  if (item.pieces?.paused) {
    show(item, "sending", words.textSending);
    item.pieces.go();
  } else item.pieces?.pause();
}

function remove(item) {
  item.request?.abort();
  items.splice(items.indexOf(item), 1);
  item.row.remove();
  refresh();
  pump();
}

function again(item) {
  held = false;
  show(item, "waiting", words.textWaiting);
  pump();
}

// Large files go in pieces: see resumable.js.
function sendInPieces(item) {
  const bar = item.row.querySelector("[data-bar]");
  const said = { sending: words.textSending, saving: words.textSaving, offline: words.textOffline, paused: words.textPaused };
  const facts = { path: item.path, folder: words.folder, same_name: item.sameName, ...extras() };
  const pieces = new Resumable(item.file, facts, words.piecesUrl, {
    state: (state) => show(item, state, said[state]),
    progress: (sent, total) => {
      bar.value = Math.round((100 * sent) / total);
      item.row.querySelector("[data-size]").textContent = `${size(sent)} / ${size(total)}`;
    },
  });
  item.request = item.pieces = pieces;
  show(item, "sending", words.textSending);
  pieces.send().then(
    (told) => settled(item, 201, { status: told.outcome, document: told.document && { url: `${words.documentsUrl}${told.document}/` } }),
    (error) => error && settled(item, error.status, error.answer),
  );
}

// What the form says besides, for every file: other parts of the dialogue add their fields here by `data-upload-extra`.
function extras() {
  const found = {};
  for (const input of document.querySelectorAll("[data-upload-extra]")) {
    if (input.type !== "checkbox" || input.checked) found[input.name] = input.value;
  }
  return found;
}

function send(item) {
  if (item.file.size >= FROM) {
    sendInPieces(item);
    return;
  }
  const request = new XMLHttpRequest();
  item.request = request;
  show(item, "sending", words.textSending);
  const bar = item.row.querySelector("[data-bar]");
  bar.value = 0;
  request.upload.addEventListener("progress", (event) => {
    if (!event.lengthComputable) return;
    bar.value = Math.max(bar.value, Math.round((100 * event.loaded) / event.total));
    if (event.loaded === event.total) show(item, "saving", words.textSaving);
  });
  request.addEventListener("load", () => finished(item, request));
  request.addEventListener("error", () => broken(item));
  request.addEventListener("abort", () => pump());
  request.open("POST", words.url);
  request.setRequestHeader("Accept", "application/json");
  request.setRequestHeader("X-CSRFToken", csrf());
  const body = new FormData();
  body.append("path", item.path);
  body.append("folder", words.folder);
  body.append("same_name", item.sameName);
  for (const [name, value] of Object.entries(extras())) body.append(name, value);
  body.append("file", item.file, item.file.name);
  request.send(body);
}

function finished(item, request) {
  let answer = {};
  try {
    answer = JSON.parse(request.responseText);
  } catch {
    // A page instead of JSON: a proxy's error, or the sign-in page.
  }
  const elsewhere = request.responseURL && !request.responseURL.endsWith(words.url);
  if (request.status === 429) {
    // Too many at once for the limit of requests: this one waits its turn.
    const seconds = Number(request.getResponseHeader("Retry-After")) || 5;
    item.request = null;
    show(item, "waiting", words.textWaiting);
    blockedUntil = Date.now() + seconds * 1000;
    setTimeout(pump, seconds * 1000 + 50);
    return;
  }
  settled(item, elsewhere ? 401 : request.status, answer);
}

function settled(item, status, answer) {
  item.request = item.pieces = null;
  const link = item.row.querySelector("[data-row-open]");
  if (answer.document?.url) {
    link.href = answer.document.url;
    link.hidden = false;
  }
  item.row.querySelector("[data-size]").textContent = size(item.file.size);
  if (status === 201 && answer.status) {
    const key = `text${answer.status[0].toUpperCase()}${answer.status.slice(1)}`;
    show(item, answer.status, words[key] ?? words.textCreated);
  } else {
    item.final = [404, 403, 413].includes(status) || FINAL.has(answer.code);
    show(item, "failed", status === 401 ? words.textSignedOut : (answer.title ?? words.textFailed));
  }
  pump();
}

function broken(item) {
  item.request = null;
  if (navigator.onLine === false) show(item, "offline", words.textOffline);
  else show(item, "failed", words.textFailed);
  pump();
}

addEventListener("online", () => {
  for (const item of items) if (item.state === "offline") show(item, "waiting", words.textWaiting);
  pump();
});

let blockedUntil = 0;

function pump() {
  if (held || Date.now() < blockedUntil) return;
  const busy = items.filter((item) => item.request).length;
  if (navigator.onLine === false) {
    for (const item of items) if (item.state === "waiting") show(item, "offline", words.textOffline);
    return;
  }
  const waiting = items.filter((item) => item.state === "waiting" && !item.request);
  waiting.slice(0, Math.max(0, PARALLEL - busy)).forEach(send);
}

// -- the tray --

let told = "";
let drawing = 0;

// A folder of thousands changes often: the tray is drawn once a frame, not once a change.
function refresh() {
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    draw();
  });
}

function draw() {
  const open = items.filter((item) => OPEN.has(item.state));
  const failed = items.filter((item) => item.state === "failed");
  const good = items.filter((item) => GOOD.has(item.state));
  tray.hidden = items.length === 0;
  const inOrder = [...items].sort((a, b) => (ORDER[a.state] ?? 4) - (ORDER[b.state] ?? 4));
  inOrder.forEach((item, place) => {
    if (list.children[place] !== item.row) list.insertBefore(item.row, list.children[place] ?? null);
  });
  if (form && !open.length) held = true;
  let title = fill(words.textAll, { n: good.length });
  if (open.length && held) title = fill(words.textChosen, { n: open.length });
  else if (open.length) title = fill(words.textRunning, { done: items.length - open.length, total: items.length });
  else if (failed.length) title = fill(words.textSome, { ok: good.length, bad: failed.length });
  const heading = tray.querySelector("[data-tray-title]");
  if (heading.textContent !== title) heading.textContent = title;
  tray.querySelector("[data-tray-retry]").hidden = !failed.some((item) => !item.final);
  tray.querySelector("[data-tray-clear]").hidden = good.length === 0;
  tray.querySelector("[data-tray-report]").hidden = failed.length === 0;
  const left = tray.querySelector("[data-tray-left]");
  left.hidden = leftOut === 0;
  left.textContent = fill(words.textJunk, { n: leftOut });
  if (!open.length && items.length && told !== title) announce((told = title));
}

tray?.querySelector("[data-tray-clear]").addEventListener("click", () => {
  for (const item of items.filter((one) => GOOD.has(one.state))) remove(item);
});
tray?.querySelector("[data-tray-retry]").addEventListener("click", () => {
  for (const item of items.filter((one) => one.state === "failed" && !one.final)) again(item);
});
// What was refused and why, to take along: one line a file.
const report = () => items.filter((one) => one.state === "failed").map((one) => `${one.path}\t${one.said}`).join("\n");

tray?.querySelector("[data-report-copy]").addEventListener("click", async (event) => {
  const button = event.currentTarget;
  await navigator.clipboard.writeText(report());
  announce(button.dataset.copied);
  button.querySelector("[data-text]").textContent = button.dataset.copied;
});
tray?.querySelector("[data-report-save]").addEventListener("click", () => {
  const url = URL.createObjectURL(new Blob(["\ufeff", report(), "\n"], { type: "text/tab-separated-values" }));
  Object.assign(document.createElement("a"), { href: url, download: "refused.tsv" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
});
tray?.querySelector("[data-tray-fold]").addEventListener("click", (event) => {
  const folded = tray.classList.toggle("tray--folded");
  event.currentTarget.setAttribute("aria-expanded", String(!folded));
});
addEventListener("beforeunload", (event) => {
  if (held || !items.some((item) => OPEN.has(item.state))) return;
  event.preventDefault();
  event.returnValue = words.textLeave;
});

// -- names that exist are asked about before any byte travels --

async function existing(paths) {
  const found = [];
  // The server takes a thousand fields in one form.
  for (let start = 0; start < paths.length; start += 500) found.push(...(await existingOf(paths.slice(start, start + 500))));
  return found;
}

async function existingOf(paths) {
  const body = new URLSearchParams({ folder: words.folder });
  for (const path of paths) body.append("path", path);
  try {
    const response = await fetch(words.namesUrl, { method: "POST", body, headers: { "X-CSRFToken": csrf(), Accept: "application/json" } });
    return response.ok ? (await response.json()).existing : [];
  } catch {
    return [];
  }
}

function question(names) {
  const dialog = document.getElementById("same-names");
  const shown = document.getElementById("same-names-list");
  shown.replaceChildren(...names.slice(0, 8).map((name) => Object.assign(document.createElement("li"), { textContent: name })));
  if (names.length > 8) shown.append(Object.assign(document.createElement("li"), { textContent: `+${names.length - 8}` }));
  dialog.returnValue = "skip";
  dialog.showModal();
  dialog.querySelector("[data-safe]").focus();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue || "skip"), { once: true }));
}

// `chosen`: [{ file, path }]. `answer`: what the form says about names that exist, or "" to ask.
export async function upload(found, answer = "") {
  const { files: chosen, left } = sorted(found);
  leftOut += left;
  const most = MOST;
  const taken = chosen.slice(0, most);
  const there = answer ? [] : await existing(taken.filter((one) => !refusal(one.file)).map((one) => one.path));
  const choice = there.length ? await question(there) : answer || "revision";
  for (const { file, path } of taken) {
    if (there.includes(path) && choice === "skip") continue;
    add(file, path, there.includes(path) || answer ? choice : "revision");
  }
  if (chosen.length > most) {
    const said = fill(words.textMany, { n: most });
    document.getElementById("live-alert").textContent = said;
    add(new File([], said), said, "skip");
  }
  pump();
}

// -- where files come from --

const picker = document.getElementById("upload-files");
picker?.addEventListener("change", () => {
  upload(fromInput(picker));
  picker.value = "";
});
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-upload-choose]") || !picker || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  picker.click();
});

const answerOf = () => new FormData(form).get("same_name") ?? "revision";
for (const input of document.querySelectorAll("[data-files]")) {
  input.addEventListener("change", () => {
    upload(fromInput(input), answerOf());
    input.value = "";
  });
}
form?.addEventListener("submit", (event) => {
  event.preventDefault();
  event.stopImmediatePropagation();
  const waiting = items.filter((item) => item.state === "waiting");
  if (!waiting.length) {
    document.getElementById("files").click();
    return;
  }
  held = false;
  words.folder = form.elements.folder.value;
  for (const item of waiting) item.sameName = answerOf();
  pump();
  refresh();
}, true);

const carriesFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
const veil = document.getElementById("drop-veil");
const zone = document.querySelector("[data-drop-zone]");
let depth = 0;

function hover(on) {
  if (veil) veil.hidden = !on;
  zone?.classList.toggle("drop-zone--over", on);
}

if (tray) {
  addEventListener("dragenter", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth += 1;
    hover(true);
  });
  addEventListener("dragleave", (event) => {
    if (!carriesFiles(event)) return;
    depth = Math.max(0, depth - 1);
    if (!depth) hover(false);
  });
  addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
  });
  addEventListener("drop", async (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    hover(false);
    const chosen = await fromDrop(event.dataTransfer, MOST);
    if (chosen.length) upload(chosen, form ? answerOf() : "");
  });
}
