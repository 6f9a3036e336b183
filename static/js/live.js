// Live states over one websocket. Elements say what to follow: `data-live-topic="base:…" data-live-after="17"`.
// Rows: `#doc-UID` with data-rev, data-attempt, data-seq and (optionally) data-row-url. Regions that the page may
// read again: `data-live-region` with an id. The database holds the truth; a frame only says that it has moved.
import { remember, restore } from "./focus.js";
import { refreshAll } from "./select.js";
import { announce, fill, number } from "./text.js";

const POLL = 15_000;
const after = new Map();
let socket = null;
let delay = 1000;
let poll = 0;
let denied = false;

const topics = () => [...document.querySelectorAll("[data-live-topic]")];
const dots = () => document.querySelectorAll(".live[data-live-topic]");

// -- the wire --

function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/ws/events/`);
  socket.addEventListener("open", () => {
    delay = 1000;
    subscribe();
  });
  socket.addEventListener("message", (event) => receive(JSON.parse(event.data)));
  socket.addEventListener("close", (event) => {
    socket = null;
    if (event.code === 4401) {
      denied = true;
    }
    paused();
    // Half of the wait is chance, so that not everybody comes back at once.
    if (!denied) setTimeout(connect, delay / 2 + (Math.random() * delay) / 2);
    delay = Math.min(delay * 2, 30_000);
  });
}

export function subscribe() {
  if (socket?.readyState !== WebSocket.OPEN) return;
  const wanted = new Map([[`user:${document.body.dataset.person}`, undefined]]);
  for (const element of topics()) wanted.set(element.dataset.liveTopic, Number(element.dataset.liveAfter));
  for (const [topic, first] of wanted) {
    const seen = after.get(topic) ?? first;
    socket.send(JSON.stringify(Number.isFinite(seen) ? { subscribe: topic, after: seen } : { subscribe: topic }));
  }
}

function receive(frame) {
  if (frame.type === "subscribed") {
    if (!after.has(frame.topic)) after.set(frame.topic, frame.seq);
    resumed();
    return;
  }
  if (frame.type === "denied" || frame.type === "reset") {
    // Access has moved, or too much was missed: the page decides anew what may be seen.
    after.delete(frame.topic);
    refetchSoon();
    return;
  }
  after.set(frame.topic, Math.max(frame.seq, after.get(frame.topic) ?? 0));
  document.dispatchEvent(new CustomEvent("archway:event", { detail: frame }));
  if (frame.type === "document.progress") progress(frame);
  else if (frame.type === "document.changed") rowChanged(frame.doc);
  else if (frame.type === "work.progress") workMoved(frame);
  else if (frame.type === "notification") {
    countsSoon();
    if (document.querySelector("[data-live-user]")) refetchSoon();
  }
}

function paused() {
  const banner = document.getElementById("live-banner");
  if (!banner || !topics().length) return;
  if (banner.hidden) {
    const text = banner.querySelector("[data-text]");
    const time = new Intl.DateTimeFormat(document.documentElement.lang, { hour: "2-digit", minute: "2-digit", hour12: false });
    text.textContent = fill(text.dataset.text, { time: time.format(new Date()) });
    banner.hidden = false;
  }
  dots().forEach((dot) => {
    dot.dataset.liveState = "paused";
    dot.textContent = dot.dataset.pausedText;
  });
  if (!poll) poll = setInterval(() => document.hidden || refetch(), POLL);
}

function resumed() {
  const banner = document.getElementById("live-banner");
  if (banner) banner.hidden = true;
  dots().forEach((dot) => {
    dot.dataset.liveState = "live";
    dot.textContent = dot.dataset.liveText;
  });
  clearInterval(poll);
  poll = 0;
}

// -- rows --

// Revision, then attempt, then number of the frame: what is older than the row is dropped.
function isOlder(row, frame) {
  const known = [row.dataset.rev, row.dataset.attempt, row.dataset.seq].map((value) => Number(value) || 0);
  const told = [frame.rev, frame.attempt, frame.seq];
  for (let place = 0; place < 3; place += 1) {
    if (told[place] !== known[place]) return told[place] < known[place];
  }
  return true;
}

const seen = new Map();

function progress(frame) {
  const rows = document.querySelectorAll(`[id="doc-${CSS.escape(frame.doc)}"], [data-doc="${CSS.escape(frame.doc)}"]`);
  // A page whose rows are elsewhere is read again when a state moves, not at every step of a bar.
  const key = `${frame.doc} ${frame.rev}`;
  if (!rows.length && seen.get(key) !== frame.state) refetchSoon();
  seen.set(key, frame.state);
  for (const row of rows) {
    if (row.hasAttribute("data-only-rev") && Number(row.dataset.rev) !== frame.rev) {
      if (frame.rev > Number(row.dataset.rev) && !document.querySelector(`[data-doc="${CSS.escape(frame.doc)}"][data-rev="${frame.rev}"]`)) refetchSoon();
      continue;
    }
    if (isOlder(row, frame)) continue;
    const same = row.dataset.state === frame.state && Number(row.dataset.rev) === frame.rev;
    Object.assign(row.dataset, { rev: frame.rev, attempt: frame.attempt, seq: frame.seq, state: frame.state });
    if (same) {
      paint(row, frame);
    } else {
      const badge = row.querySelector(".badge[data-state]");
      const template = document.getElementById(`badge-${frame.state}`);
      if (badge && template) badge.replaceWith(template.content.firstElementChild.cloneNode(true));
      note(frame.state);
      rowChanged(frame.doc);
    }
  }
}

function paint(row, frame) {
  const bar = row.querySelector("[data-progress] progress");
  const step = row.querySelector("[data-progress] [data-step]");
  const amount = row.querySelector("[data-progress] [data-amount]");
  if (step) step.textContent = `${frame.step}/${frame.steps}`;
  if (bar && frame.total) {
    bar.max = frame.total;
    bar.value = Math.max(bar.value, frame.done);
  }
  if (amount && frame.total) {
    const unit = row.querySelector("[data-progress]").dataset[`unit${frame.unit[0]?.toUpperCase()}${frame.unit.slice(1)}`];
    amount.textContent = `${number(frame.done)}/${number(frame.total)} ${unit ?? ""}`;
  }
}

// A batch, export or import: pages that show it read their regions again.
function workMoved(frame) {
  if (document.querySelector("[data-works]") || !["queued", "running"].includes(frame.state)) refetchSoon();
}

const changed = new Set();
let rowTimer = 0;

function rowChanged(doc) {
  changed.add(doc);
  rowTimer ||= setTimeout(rereadRows, 400);
}

function rereadRows() {
  rowTimer = 0;
  const rows = [...changed].map((doc) => document.getElementById(`doc-${doc}`));
  changed.clear();
  countsSoon();
  // Many at once, or rows without an address of their own: one request for all of them.
  if (rows.length > 5 || rows.some((row) => !row?.dataset.rowUrl)) {
    refetchSoon();
    return;
  }
  for (const row of rows) htmx.ajax("GET", row.dataset.rowUrl, { target: row, swap: "outerHTML" });
}

// -- the page once more: every region of it in one request --

let refetchTimer = 0;
let last = 0;

export function refetchSoon() {
  refetchTimer ||= setTimeout(refetch, Math.max(500, 3000 - (Date.now() - last)));
}

async function refetch() {
  clearTimeout(refetchTimer);
  refetchTimer = 0;
  last = Date.now();
  const regions = [...document.querySelectorAll("[data-live-region][id]")];
  if (!regions.length) return;
  let response;
  try {
    response = await fetch(location.href, { headers: { Accept: "text/html" } });
  } catch {
    return;
  }
  if (response.redirected || !response.ok) {
    // Signed out, or no longer allowed to see this: show what everybody else would see.
    if (response.redirected || response.status === 404 || response.status === 403) location.reload();
    return;
  }
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const memory = remember();
  for (const region of regions) replace(region, fresh.getElementById(region.id));
  restore(memory);
  refreshAll();
  subscribe();
}

function replace(region, fresh) {
  if (!fresh || region.innerHTML === fresh.innerHTML) return;
  const checked = new Set([...region.querySelectorAll("input[data-select-row]:checked")].map((input) => input.value));
  const openOnes = new Set([...region.querySelectorAll("details[open][id]")].map((details) => details.id));
  region.replaceWith(fresh);
  fresh.querySelectorAll("input[data-select-row]").forEach((input) => (input.checked = checked.has(input.value)));
  fresh.querySelectorAll("details[id]").forEach((details) => (details.open = details.open || openOnes.has(details.id)));
  htmx.process(fresh);
}

let countsTimer = 0;

function countsSoon() {
  countsTimer ||= setTimeout(() => {
    countsTimer = 0;
    if (document.getElementById("shell-counts")) htmx.ajax("GET", "/shell-counts/", { target: "#shell-counts", swap: "outerHTML" });
  }, 1000);
}

// -- what happened, read out every ten seconds at most --

const tally = { indexed: 0, failed: 0 };
let tallyTimer = 0;

function note(state) {
  if (!(state in tally)) return;
  tally[state] += 1;
  tallyTimer ||= setTimeout(() => {
    tallyTimer = 0;
    const words = document.getElementById("live-status").dataset;
    const said = [];
    if (tally.indexed) said.push(fill(words.done, { n: number(tally.indexed) }));
    if (tally.failed) said.push(fill(words.failed, { n: number(tally.failed) }));
    announce(said.join(words.comma));
    tally.indexed = tally.failed = 0;
  }, 10_000);
}

// Elapsed times move on by themselves.
setInterval(() => {
  if (document.hidden) return;
  for (const element of document.querySelectorAll("[data-elapsed][data-since]")) {
    const seconds = Math.max(0, Math.round((Date.now() - Date.parse(element.dataset.since)) / 1000));
    const { secondsText, minutesText } = element.dataset;
    if (seconds < 60 && secondsText) element.textContent = fill(secondsText, { n: seconds });
    else if (seconds < 3600 && minutesText) {
      element.textContent = fill(minutesText, { m: Math.floor(seconds / 60), s: seconds % 60 });
    }
  }
}, 1000);

document.addEventListener("htmx:afterSettle", subscribe);
document.addEventListener("visibilitychange", () => document.hidden || !poll || refetch());
if (document.body.dataset.person) connect();
