// Answers while they are written: text as it comes, from the beginning after a reload, stopped on request.
import { csrf } from "./text.js";

const open = new Set();

// Whether an answer is being followed now.
export function followed() {
  return open.size > 0;
}

// Shows an answer as it is written; resolves with the finished turn, or null when it is gone.
export function follow(turn) {
  const box = turn.querySelector("[data-follow]");
  const text = box.querySelector("[data-text]");
  const address = box.dataset.follow;
  const latest = box.querySelector("[data-latest]");
  const source = new EventSource(`${address}events/`);
  const tail = following(text, latest);
  const answer = { turn, box };
  open.add(answer);
  return new Promise((resolve) => {
    const end = async () => {
      source.close();
      tail.end();
      open.delete(answer);
      resolve(await settled(turn, box, address));
    };
    source.addEventListener("answer.delta", (event) => {
      text.append(JSON.parse(event.data).text);
      tail.moved();
    });
    source.addEventListener("answer.done", end);
    // The browser connects again by itself and says where it was; closed means that there is nothing to follow.
    source.addEventListener("error", () => source.readyState === EventSource.CLOSED && end());
  });
}

// Asks the server to stop what is being written on this page; the text so far stays.
export function stopFollowing() {
  for (const { box } of open) {
    const form = box.querySelector("[data-stop]");
    fetch(form.action, { method: "POST", headers: { "X-CSRFToken": csrf(), Accept: "application/json" } }).catch(() => {});
  }
}

async function settled(turn, box, address) {
  try {
    const response = await fetch(address, { headers: { "HX-Request": "true" } });
    if (!response.ok) throw new Error(String(response.status));
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fresh = document.adoptNode(page.querySelector("[data-turn]"));
    const focused = turn.contains(document.activeElement);
    turn.replaceWith(fresh);
    if (focused) fresh.querySelector(".turn__question")?.focus({ preventScroll: true });
    return fresh;
  } catch {
    box.removeAttribute("aria-busy");
    const stage = box.querySelector("[data-stage]");
    stage.textContent = box.dataset.failed;
    return null;
  }
}

// The end of the text stays in view until the reader scrolls; then a button leads back to it.
function following(text, button) {
  let held = true;
  const leave = () => {
    held = false;
    button.hidden = false;
  };
  const keys = (event) => ["PageUp", "PageDown", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key) &&
    !event.target.closest("textarea, input, select") && leave();
  addEventListener("wheel", leave, { passive: true });
  addEventListener("touchmove", leave, { passive: true });
  addEventListener("keydown", keys);
  const show = () => text.scrollIntoView({ block: "end" });
  button.addEventListener("click", () => {
    held = true;
    button.hidden = true;
    show();
  });
  return {
    moved: () => held && show(),
    end: () => {
      removeEventListener("wheel", leave);
      removeEventListener("touchmove", leave);
      removeEventListener("keydown", keys);
    },
  };
}
