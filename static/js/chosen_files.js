// Files out of inputs and drops, folders walked through; what systems leave in folders by themselves is left out.

let junk = { names: [], starts: [], folders: [] };

// The rule stands in knowledge/intake.py; the page hands it over.
export function setJunk(rule) {
  junk = rule;
}

function isJunk(path) {
  const parts = path.split("/");
  const name = parts.pop();
  return (
    junk.names.includes(name.toLowerCase()) ||
    [name, ...parts].some((part) => junk.starts.some((start) => part.startsWith(start))) ||
    parts.some((part) => junk.folders.includes(part))
  );
}

// { files: [{ file, path }], left: how many were left out }
export function sorted(found) {
  // A file chosen by itself is meant; only what came along in a folder can be junk.
  const files = found.filter(({ path }) => !path.includes("/") || !isJunk(path));
  return { files, left: found.length - files.length };
}

export const fromInput = (input) => [...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));

async function walk(entry, prefix, found, most) {
  if (found.length > most) return;
  if (entry.isFile) {
    const file = await new Promise((resolve) => entry.file(resolve, () => resolve(null)));
    if (file) found.push({ file, path: prefix + file.name });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    // A reader gives at most a hundred entries at a time.
    const some = await new Promise((resolve) => reader.readEntries(resolve, () => resolve([])));
    if (!some.length) return;
    for (const inner of some) await walk(inner, `${prefix}${entry.name}/`, found, most);
  }
}

export async function fromDrop(transfer, most) {
  // Both lists are empty once the event is over, so they are taken before anything is awaited.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const plain = [...transfer.files];
  const found = [];
  for (const entry of entries) await walk(entry, "", found, most);
  return found.length ? found : plain.map((file) => ({ file, path: file.name }));
}
