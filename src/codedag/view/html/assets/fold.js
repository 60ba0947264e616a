// What the graph shows: units as boxes, folds as one box or, when they are open, as a frame around what is in them.

const BOX_HEIGHT = 58, LEAST_WIDTH = 132, MOST_WIDTH = 250, LINKS_PER_BOX = 3, FEW_BOXES = 45, MOST_SHOWN = 150;
const wide = (text, letter) => { let total = 0; for (const one of text) total += one < "\u1100" ? letter : 2 * letter; return total; };
const boxWidth = (words) => Math.min(Math.max(LEAST_WIDTH, 18 + Math.max(wide(words[0].slice(0, 60), 7.3), wide(words[1].slice(0, 60), 5.9), wide(words[2].slice(0, 60), 5.9))), MOST_WIDTH);

function cut(text, letter, room) {
  if (wide(text, letter) <= room) return text;
  const letters = [...text];
  while (letters.length && wide(letters.join(""), letter) + letter > room) letters.pop();
  return `${letters.join("")}…`;
}
// The end of a name: that is where names differ.
function cutFront(text, letter, room) {
  return wide(text, letter) <= room ? text : `…${[...cut([...text].reverse().join(""), letter, room).slice(0, -1)].reverse().join("")}`;
}

// The picture of a tree of folds, of which some (by their keys) are open.
function pictureOf(tree, isOpen) {
  const units = DATA.picture.units, whole = DATA.picture.seconds || 1, boxes = [], ofUnit = new Array(units.length).fill(-1);
  const spent = (seconds) => `${timeText(seconds)} · ${shareText(seconds / whole)}`;
  function leaf(at) {
    const [name, kind, calls, seconds, operations, nbytes, peak, where, rows] = units[at];
    const sizes = [nbytes ? `out ${sizeText(nbytes)}` : "", peak ? `peak ${sizeText(peak)}` : "", where].filter(Boolean);
    const words = kind === "function" ? [name || many(operations, "operation"), many(operations, "operation"), spent(seconds)]
      : [name, kind === "source" ? "comes from outside" : `× ${numberText(calls)} · ${spent(seconds)}`, sizes.join(" · ")];
    return { words, kind, seconds, operations, rows, members: [at], key: "" };
  }
  function fold(name, parts, kind, key) {
    const members = parts.flatMap(unitsOf), seconds = sum(members.map((at) => units[at][3])), operations = sum(members.map((at) => units[at][4]));
    const words = kind === "function" ? [name, many(operations, "operation"), spent(seconds)] : [name, spent(seconds), "folded"];
    const hottest = members.slice().sort((a, b) => units[b][3] - units[a][3]);
    return { words, kind, seconds, operations, rows: hottest.flatMap((at) => units[at][8]), members, key };
  }
  function add(box) {
    box.number = boxes.length;
    Object.assign(box, { width: boxWidth(box.words), height: BOX_HEIGHT });
    for (const at of box.members) ofUnit[at] = box.number;
    boxes.push(box);
    return box;
  }
  function walk(parts, key, path) {
    return parts.map((part, n) => {
      if (typeof part === "number") return add(leaf(part));
      const [name, inner, kind] = part, own = `${key}/${n}`;
      if (kind && !isOpen(own)) return add(fold(name, inner, kind, own));
      const below = [...path, name], first = boxes.length, made = { name, path: below, key: kind ? own : "", parts: walk(inner, own, below) };
      made.seconds = sum(boxes.slice(first).map((box) => box.seconds));
      made.title = `${kind ? "▾ " : ""}${name} · ${spent(made.seconds)}`;
      made.heading = Math.min(wide(made.title.slice(0, 90), 6.8) + 20, 420);
      return made;
    });
  }
  const root = { parts: walk(tree, "", []) }, every = linksBetween(boxes, ofUnit), links = widest(every, boxes.length);
  const share = sum(links.map((link) => link.nbytes)) / (sum(every.map((link) => link.nbytes)) || 1), left = every.length - links.length;
  return { root, boxes, links, notes: left ? [`${numberText(left)} of ${numberText(every.length)} arrows are not drawn; those that are carry ${shareText(share)} of the bytes`] : [] };
}

const unitsOf = (part) => typeof part === "number" ? [part] : part[1].flatMap(unitsOf);

// What flows between the boxes.
function linksBetween(boxes, ofUnit) {
  const found = [], { flow, anti, later } = DATA.picture, flows = new Set();
  for (const [kind, edges] of [["flow", flow], ["anti", anti], ["carried", later]]) {
    const joined = new Map();
    for (const [from, to, nbytes] of edges) {
      const source = ofUnit[from], target = ofUnit[to];
      if (source === target && !(kind === "carried" && boxes[source].kind === "place")) continue;
      const key = source * boxes.length + target;
      joined.set(key, (joined.get(key) || 0) + (nbytes || 0));
    }
    for (const [key, nbytes] of [...joined].sort((a, b) => a[0] - b[0])) {
      if (kind === "flow") flows.add(key); else if (kind === "anti" && flows.has(key)) continue;
      found.push({ source: Math.floor(key / boxes.length), target: key % boxes.length, kind, nbytes });
    }
  }
  return found;
}

// Of very many links those with most bytes, and of each box the widest that arrives.
function widest(found, count) {
  const limit = LINKS_PER_BOX * Math.max(FEW_BOXES, count);
  if (found.length <= limit) return found;
  const ranked = found.slice().sort((a, b) => b.nbytes - a.nbytes || a.source - b.source || a.target - b.target), first = new Map();
  for (const link of ranked) if (!first.has(link.target)) first.set(link.target, link);
  const kept = new Set([...first.values(), ...ranked.slice(0, limit - first.size)]);
  return found.filter((link) => kept.has(link));
}

function placed(picture) {
  const links = picture.links.map((link) => [Math.min(link.source, link.target), Math.max(link.source, link.target), link.kind === "flow" ? thickness(link) : 0.5]);
  return columns(layOut(picture.root, picture.boxes.length, links));
}
