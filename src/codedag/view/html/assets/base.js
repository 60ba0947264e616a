// What all pages of the report share. Text from the run only ever becomes text nodes and attributes, never markup.
let DATA = null; // the facts of the run; set before anything is shown
const PAGES = [];
const SVG = "http://www.w3.org/2000/svg";

function el(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = document.createElement(name || "div");
  if (classes.length) made.className = classes.join(" ");
  fill(made, attributes, children);
  return made;
}

function draw(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const made = document.createElementNS(SVG, name);
  if (classes.length) made.setAttribute("class", classes.join(" "));
  fill(made, attributes, children);
  return made;
}

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(3)) if (child !== null && child !== undefined && child !== false) made.append(child);
}

// Three digits; what rounds up to a thousand has four.
function digits(value) {
  const text = value.toPrecision(3);
  return text.includes("e") ? String(Math.round(value)) : text;
}

const shades = {
  time(seconds) {
    if (seconds === null || seconds === undefined) return "–";
    const size = Math.abs(seconds);
    if (size >= 100) return `${Math.round(seconds).toLocaleString("en-US")} s`;
    if (size >= 1) return `${digits(seconds)} s`;
    if (size >= 1e-3) return `${digits(seconds * 1e3)} ms`;
    if (size >= 1e-6) return `${digits(seconds * 1e6)} µs`;
    return size ? `${(seconds * 1e9).toFixed(0)} ns` : "0 s";
  },
  size(nbytes) {
    if (nbytes === null || nbytes === undefined) return "–";
    for (const [unit, step] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
      if (nbytes >= step) return `${digits(nbytes / step)} ${unit}`;
    return `${Math.round(nbytes)} B`;
  },
  share(part) { return part > 0 && part < 0.0005 ? "< 0.1 %" : `${(100 * part).toFixed(1)} %`; },
  number(value) { return value.toLocaleString("en-US"); },
  times(gain) { return gain === null || gain === undefined ? "–" : `${gain.toFixed(gain < 10 ? 2 : gain < 100 ? 1 : 0)}×`; },
  many(n, one, more) { return `${n.toLocaleString("en-US")} ${n === 1 ? one : more || one + "s"}`; },
};
const { time: timeText, size: sizeText, share: shareText, number: numberText, times: timesText, many } = shades;

// ---- operations, as rows of the columns in the data

let OPS, BY_ID, BY_ROW, PLACED, COSTS;
// Opens what is packed in the data: texts that occur often are numbers there.
function unpack() {
  const plan = DATA.plan;
  if (plan) {
    plan.placement = plan.placement.map(([op, pu, variant]) => [op, plan.texts[pu], plan.texts[variant]]);
    plan.decisions = plan.decisions.map(([op, chosen, second, why]) => ({ op, chosen: plan.texts[chosen], runner_up: plan.texts[second], why: plan.texts[why] }));
  }
}

function index() {
  unpack();
  const columns = DATA.ops;
  OPS = [];
  const word = (column, at) => columns.texts[columns[column][at]];
  for (let at = 0; columns && at < columns.id.length; at++) OPS.push({
    row: columns.row[at], id: columns.id[at], name: word("name", at), short: word("short", at), kind: word("kind", at),
    file: word("file", at), line: columns.line[at], context: word("context", at), ins: word("in_sig", at),
    outs: word("out_sig", at), effects: word("effects", at), calls: columns.calls[at], own: columns.self[at], total: columns.total[at],
    out: columns.out[at], in: columns.in[at], peak: columns.peak[at], parent: columns.parent[at],
  });
  BY_ID = new Map(OPS.map((op) => [op.id, op]));
  BY_ROW = new Map(OPS.map((op) => [op.row, op]));
  PLACED = new Map(((DATA.plan || {}).placement || []).map(([op, pu, variant]) => [op, { pu, variant }]));
  COSTS = new Map();
  for (const [op, pu, variant, seconds, low, high, status, reason, scratch, others, bound, source] of (DATA.costs || {}).rows || []) {
    if (!COSTS.has(op)) COSTS.set(op, []);
    COSTS.get(op).push({ pu, variant, seconds, low, high, status, reason, scratch, bound, source });
    for (const [name, s, l, h, st, why] of others)
      COSTS.get(op).push({ pu, variant: name, seconds: s, low: l, high: h, status: st, reason: why, scratch: 0 });
  }
}
const works = (op) => op.kind !== "region" && op.kind !== "source";
const fileName = (file) => file.replace(/\\/g, "/").split("/").pop();
const where = (op) => `${fileName(op.file)}:${op.line}`;
const opLabel = (op) => op ? `${op.short} · ${where(op)}` : "an operation that is not listed";
const asWritten = (pu, variant) => variant === "original" && (pu === "cpu" || pu === undefined);
const isSimulated = (pu) => ((DATA.machine || {}).pus || []).some((one) => one.name === pu && one.simulated);
const puLabel = (pu) => isSimulated(pu) ? `${pu} (simulated)` : pu;

// "numba:cpu" says all of "numba:cpu / operator.sub -> numba:cpu"
const runsAs = (pu, variant) => variant.endsWith(`-> ${pu}`) ? puLabel(pu) : `${puLabel(pu)} / ${variant}`;

// Colours of processing units and variants: as written is plain, the others in the order in which they are met.
const SHADES = new Map();
function shadeOf(pu, variant) {
  if (asWritten(pu, variant)) return "var(--plain)";
  const key = runsAs(pu, variant);
  if (!SHADES.has(key)) SHADES.set(key, `var(--v${SHADES.size % 8 + 1})`);
  return SHADES.get(key);
}

// ---- pieces

const empty = (title, ...words) => el("div.card.empty", null, el("b", null, title), ...words);
const code = (words) => el("code", null, words);
// A place as `file:line`, without its folder, as a link that an editor opens; files that are no text of a disk have none.
function placeName(words, label) {
  const found = /^(.+):(\d+)([-–]\d+)?$/.exec(words), code = el("code", { title: words }, label || fileName(words));
  if (!found || found[1].startsWith("<") || !DATA.run) return code;
  const path = /^(\/|[A-Za-z]:)/.test(found[1]) ? found[1] : `${DATA.run.cwd.replace(/\/$/, "")}/${found[1]}`;
  const href = DATA.editor.replaceAll("{file}", encodeURI(path).replaceAll("#", "%23")).replaceAll("{line}", found[2]);
  return el("a.place", { href, title: `${words}\nopens in the editor` }, code);
}
// The name of an operation, which is broken after its dots rather than within a word.
const opName = (words, title) => el("span.name", { title }, el("span", null, words.split(/(?<=\.)/).flatMap((part, at) => at ? [el("wbr"), part] : [part])));
const facts = (pairs) => el("dl.facts", null, pairs.filter(Boolean).map(([name, value]) => [el("dt", null, name), el("dd", null, value)]));
const card = (width, title, ...children) => el(`section.card.${width}`, { "aria-label": title }, el("h2", null, title), ...children);

function missing(kind) {
  const file = DATA.files[kind];
  if (file.why) return el("p.notice.bad", null, `${file.name} cannot be read: ${file.why}`);
  return el("p", null, "There is no ", code(file.name), " in this run. ", code(file.made_by), " makes it.");
}

function table(headings, rows, more) {
  return el("div.scroll", null, el("table", null,
    el("thead", null, el("tr", null, headings.map((one) => el(one.n ? "th.n" : "th", { scope: "col", title: one.title, "aria-sort": one.sorted },
      one.sort ? el("button", { onclick: one.sort, type: "button" }, one.name + (one.sorted ? (one.sorted === "descending" ? " ▾" : " ▴") : "")) : one.name)))),
    el("tbody", null, rows)), more);
}
const row = (cells, attributes) => el("tr", attributes, cells.map((cell) => cell instanceof Node && cell.tagName === "TD" ? cell : el("td", null, cell)));
const num = (words, title) => el("td.n", { title }, words);

function bars(lines) {
  const most = Math.max(...lines.map((one) => Math.max(one.value, one.high || 0)), 1e-12);
  return el("div.bars", { role: "list" }, lines.map((one) => {
    const whisker = one.high > one.low ? el("u", { style: `left:${100 * one.low / most}%;width:${100 * (one.high - one.low) / most}%` }) : null;
    return [el("span.label", { title: one.title || one.label }, one.label),
      el("span.bar", { role: "listitem", "aria-label": `${one.label}: ${one.words}` },
        el("i", { style: `width:${100 * one.value / most}%;background:${one.colour}` }), whisker),
      el("span.value", null, one.words)];
  }));
}

function opLink(op, words) {
  if (!op) return el("span.soft", null, "not listed");
  return el("a", { href: `#operations/${op.id}`, title: `${op.name}\n${op.file}:${op.line}\n${op.context}` }, words || opLabel(op));
}
