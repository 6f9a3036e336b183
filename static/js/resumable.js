// Sends a large file in pieces (tus 1.0, knowledge/api/uploads.py): goes on after a pause, a lost connection, a reload
// or a restart of the server. What the server has stands with the server; nothing is kept in the browser.
import { csrf } from "./text.js";

const PIECE = 4 * 1024 * 1024;
const TRIES = 8;
const LONGEST_WAIT = 30_000;
const VERSION = { "Tus-Resumable": "1.0.0" };

// Files from this size on go in pieces.
export const FROM = 8 * 1024 * 1024;

class Refused extends Error {
  constructor(status, answer) {
    super(answer.title ?? "");
    this.status = status;
    this.answer = answer;
  }
}

const encoded = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

function problem(request) {
  try {
    return JSON.parse(request.responseText || "{}");
  } catch {
    return {}; // a page instead of JSON: a proxy's error, or the sign-in page
  }
}

// `hooks`: progress(sent, total), state("sending" | "saving" | "offline" | "paused").
// Resolves with what the server says of the upload; rejects with `Refused`, or with null when it was given up.
export class Resumable {
  constructor(file, facts, address, hooks) {
    this.file = file;
    this.facts = facts;
    this.address = address;
    this.hooks = hooks;
    this.fingerprint = `${file.name}|${file.size}|${file.lastModified}`;
    this.url = "";
    this.paused = this.ended = false;
    this.request = null;
    this.wakeUp = () => {};
  }

  pause() {
    this.paused = true;
    this.request?.abort();
    this.hooks.state("paused");
  }

  go() {
    this.paused = false;
    this.wakeUp();
  }

  // Given up by the person: what the server has goes too.
  abort() {
    this.ended = true;
    this.request?.abort();
    this.wakeUp();
    if (this.url) fetch(this.url, { method: "DELETE", headers: { ...VERSION, "X-CSRFToken": csrf() } }).catch(() => {});
  }

  async send() {
    let failures = 0;
    for (;;) {
      await this.#whilePaused();
      if (this.ended) throw null;
      try {
        const offset = this.url ? await this.#offset() : await this.#begin();
        return await this.#pieces(offset, () => (failures = 0));
      } catch (error) {
        if (this.ended) throw null;
        if (this.paused) continue;
        if (error instanceof Refused && !this.#passes(error)) throw error;
        failures += 1;
        if (failures > TRIES && navigator.onLine !== false) throw error instanceof Refused ? error : new Refused(0, {});
        if (!(error instanceof Refused)) this.hooks.state("offline");
        await this.#wait(Math.min(LONGEST_WAIT, 500 * 2 ** failures));
      }
    }
  }

  // Faults after which the same piece may be sent again.
  #passes(error) {
    if (error.status === 404 && this.url) {
      this.url = ""; // the server has forgotten it: from the start
      return true;
    }
    return error.status === 0 || error.status === 429 || error.status >= 500 || ["offset_mismatch", "upload_busy"].includes(error.answer.code);
  }

  async #begin() {
    const open = await this.#call("GET", this.address);
    const mine = JSON.parse(open.responseText).find(
      (row) => row.fingerprint === this.fingerprint && row.length === this.file.size && row.path === this.facts.path && row.folder === this.facts.folder,
    );
    if (mine) {
      this.url = `/api/v1/uploads/${mine.id}`;
      return mine.offset;
    }
    const facts = { ...this.facts, filename: this.file.name, fingerprint: this.fingerprint };
    const metadata = Object.entries(facts)
      .filter(([, value]) => value)
      .map(([key, value]) => `${key} ${encoded(value)}`);
    const made = await this.#call("POST", this.address, { "Upload-Length": this.file.size, "Upload-Metadata": metadata.join(",") });
    this.url = made.getResponseHeader("Location");
    return 0;
  }

  async #offset() {
    const head = await this.#call("HEAD", this.url);
    return Number(head.getResponseHeader("Upload-Offset"));
  }

  async #pieces(start, moved) {
    let offset = start;
    this.hooks.state("sending");
    this.hooks.progress(offset, this.file.size);
    while (offset < this.file.size) {
      const piece = this.file.slice(offset, offset + PIECE);
      const last = offset + piece.size >= this.file.size;
      const answer = await this.#call("PATCH", this.url, { "Upload-Offset": offset, "Content-Type": "application/offset+octet-stream" }, piece, (sent) => {
        this.hooks.progress(offset + sent, this.file.size);
        if (last && sent >= piece.size) this.hooks.state("saving");
      });
      offset = Number(answer.getResponseHeader("Upload-Offset"));
      moved();
    }
    const told = await this.#call("GET", this.url);
    this.ended = true;
    return JSON.parse(told.responseText);
  }

  #call(method, url, headers = {}, body = null, sent = null) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      this.request = request;
      if (sent) request.upload.addEventListener("progress", (event) => sent(event.loaded));
      request.addEventListener("load", () => {
        if (request.status >= 200 && request.status < 300) resolve(request);
        else reject(new Refused(request.status, problem(request)));
      });
      request.addEventListener("error", () => reject(new TypeError("network")));
      request.addEventListener("abort", () => reject(new TypeError("aborted")));
      request.open(method, url);
      for (const [name, value] of Object.entries({ ...VERSION, Accept: "application/json", "X-CSRFToken": csrf(), ...headers })) {
        request.setRequestHeader(name, value);
      }
      request.send(body);
    });
  }

  #whilePaused() {
    if (!this.paused || this.ended) return Promise.resolve();
    return new Promise((resolve) => (this.wakeUp = resolve));
  }

  #wait(milliseconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(done, milliseconds);
      function done() {
        clearTimeout(timer);
        removeEventListener("online", done);
        resolve();
      }
      addEventListener("online", done);
      this.wakeUp = done;
    });
  }
}
