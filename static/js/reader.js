// The reader: to the cited passage once, the outline follows the reading, arrows step through citations.
const anchor = location.hash.slice(1);
const mark = /^c_\d+$/.test(anchor) ? document.getElementById(anchor) : null;
if (mark) {
  mark.scrollIntoView({ block: "center" });
  mark.focus({ preventScroll: true });
}

const picture = document.querySelector("[data-picture] img");
function pictureFailed() {
  picture.hidden = true;
  document.querySelector("[data-picture-failed]").hidden = false;
}
picture?.addEventListener("error", pictureFailed);
if (picture?.complete && !picture.naturalWidth) pictureFailed();

const outline = document.getElementById("outline");
if (outline) {
  if (matchMedia("(max-width: 1023px)").matches) outline.open = false;
  const links = new Map();
  for (const link of outline.querySelectorAll('a[href^="#"]')) {
    const heading = document.getElementById(link.hash.slice(1));
    if (heading) links.set(heading, link);
  }
  const seen = new Set();
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) (entry.isIntersecting ? seen.add(entry.target) : seen.delete(entry.target));
      const first = [...links.keys()].find((heading) => seen.has(heading));
      if (!first) return;
      outline.querySelector("[aria-current]")?.removeAttribute("aria-current");
      links.get(first).setAttribute("aria-current", "location");
    },
    { rootMargin: "-56px 0px -40% 0px" },
  );
  links.forEach((_, heading) => watcher.observe(heading));
}

// When the text has just become ready, the page is read once more.
document.addEventListener("archway:event", (event) => {
  const facts = document.getElementById("reader-facts");
  const frame = event.detail;
  if (frame.type !== "document.progress" || frame.doc !== facts?.dataset.doc || document.querySelector(".parsed")) return;
  if (["segmenting", "review", "vectorizing", "indexed", "no_text", "failed"].includes(frame.state)) location.reload();
});
