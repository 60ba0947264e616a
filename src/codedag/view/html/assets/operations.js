// Operations: one row each, sortable, with what bounds it and what another variant would bring.

const TABLE = { by: "own", down: true, search: "", regions: false, most: 200 };

// The fastest rate at which any operation of this run moved bytes: the yardstick for "memory".
let FASTEST = 0;
const rate = (op) => op.own > 0 ? (op.in + op.out) / op.own : 0;
function boundBy(op) {
  const each = op.own / Math.max(op.calls, 1);
  if (!works(op)) return "";
  const measured = (COSTS.get(op.id) || []).find((one) => asWritten(one.pu, one.variant) && one.bound);
  if (measured) return measured.bound === "overhead" ? "call overhead" : measured.bound;
  if (DATA.floor && each < DATA.floor) return "too fast to say";
  if (each < 2e-5) return "call overhead";
  if (/(read|load|open|__next__|recv|get)$/i.test(op.name) && !op.in) return "input";
  return rate(op) >= FASTEST / 2 ? "memory" : "compute";
}

const measuredInUse = (move) => move.gain_low !== undefined && move.gain_low !== null;

function bestOf(op) {
  const move = movesOf().get(op.id);
  if (move && measuredInUse(move)) return { best: { pu: (PLACED.get(op.id) || {}).pu || "cpu", variant: `${move.variant || move.kind} (${move.kind})` },
    ...gainOf(stackOf(op.id)), sure: "measured in use" };
  const ok = (COSTS.get(op.id) || []).filter((one) => one.status === "ok");
  const base = ok.find((one) => asWritten(one.pu, one.variant));
  const best = ok.slice().sort((a, b) => a.seconds - b.seconds)[0];
  if (!best || !base || best === base) return { best: best && best !== base ? best : null, gain: best ? 1 : null, sure: "" };
  const known = best.high !== null && base.low !== null;
  return { best, gain: best.seconds > 0 ? base.seconds / best.seconds : null, sure: best.source === "predicted" ? "predicted, not measured" : !known ? "no interval" : best.high < base.low ? "sure" : "intervals overlap" };
}

// The first word on what a call does beside giving its result; the rest is for a pointer that rests on it.
function effectsOf(op) {
  if (op.effects === "unknown") return el("span.soft", null, "unknown");
  const [first, ...more] = op.effects.split(", ");
  return `${first.replace(" that an argument names", "")}${more.length ? " …" : ""}`;
}

// What changes on top of each other bring: each was measured against what lies below it.
function gainOf(stack) {
  const [low, high] = ["gain_low", "gain_high"].map((key) => stack.filter(measuredInUse).reduce((gain, move) => gain * move[key], 1));
  return { gain: Math.sqrt(low * high), between: `${timesText(low)} – ${timesText(high)}` };
}

// All changes that an operation is part of, the last on top.
const stackOf = (id) => ((DATA.plan || {}).moves || []).filter((move) => move.ops.includes(id));

// The change that an operation is part of, if any; the last of several.
function movesOf() {
  if (movesOf.of !== DATA) {
    movesOf.of = DATA;
    movesOf.made = new Map(((DATA.plan || {}).moves || []).flatMap((move) => move.ops.map((id) => [id, move])));
  }
  return movesOf.made;
}

const COLUMNS = [
  { key: "name", name: "operation", of: (op) => op.short },
  { key: "where", name: "where", of: (op) => `${op.file}:${String(op.line).padStart(6, "0")}` },
  { key: "calls", name: "calls", n: true, of: (op) => op.calls },
  { key: "own", name: "own time", n: true, of: (op) => op.own, title: "time in the operation itself, summed over its calls" },
  { key: "share", name: "share", n: true, of: (op) => works(op) ? op.own : -1 },
  { key: "each", name: "each", n: true, of: (op) => op.own / Math.max(op.calls, 1), title: "own time of one call" },
  { key: "in", name: "in", n: true, of: (op) => op.in, title: "bytes that flowed into all calls" },
  { key: "out", name: "out", n: true, of: (op) => op.out, title: "bytes of all results" },
  { key: "rate", name: "rate", n: true, of: rate, title: "bytes in and out per second of own time" },
  { key: "bound", name: "bound by", of: boundBy, title: "see the page “Method” for the rule" },
  { key: "effects", name: "effects", of: (op) => works(op) ? op.effects : "", title: "what a call does beside giving its result; unknown unless a table or its operands say so" },
  { key: "best", name: "best variant", of: (op) => { const { best } = bestOf(op); return best ? `${best.pu}/${best.variant}` : ""; } },
  { key: "gain", name: "gain", n: true, of: (op) => bestOf(op).gain || 0, title: "measured time as written over measured time of the best variant; of a change in use the interval, on the same calls" },
  { key: "sure", name: "confidence", of: (op) => bestOf(op).sure, title: "whether the measured intervals are apart" },
];

PAGES.push({ id: "operations", title: "Operations", show(page, rest) {
  if (!DATA.ops) return page.append(empty("No operations", missing("graph")));
  if (!OPS.length) return page.append(empty("No operations", "No operation on data was recorded."));
  const measured = OPS.filter((op) => works(op) && op.kind !== "subscript" && op.own / Math.max(op.calls, 1) >= Math.max(2e-5, DATA.floor));
  FASTEST = measured.reduce((most, op) => Math.max(most, rate(op)), 0);
  const asked = rest ? Number(rest) : null;
  const holder = el("div.card");
  const refresh = () => holder.replaceChildren(...operationRows(asked, refresh));
  page.append(el("div.tools", null,
    el("input", { type: "search", placeholder: "search names, files, lines", "aria-label": "search", value: TABLE.search, oninput: (event) => { TABLE.search = event.target.value; refresh(); } }),
    el("label", null, el("input", { type: "checkbox", checked: TABLE.regions, onchange: (event) => { TABLE.regions = event.target.checked; refresh(); } }), " also your own functions and sources"),
    DATA.whole.listed < DATA.whole.operations ? el("span.soft", null, `the ${numberText(DATA.whole.listed)} hottest of ${numberText(DATA.whole.operations)} operations, ${shareText(DATA.whole.listed_seconds / (DATA.whole.seconds || 1))} of the time`) : null), holder);
  refresh();
  const line = asked !== null && document.getElementById(`op-${asked}`);
  if (line) line.scrollIntoView({ block: "center" });
} });

function operationRows(asked, refresh) {
  const words = TABLE.search.trim().toLowerCase(), column = COLUMNS.find((one) => one.key === TABLE.by);
  let found = OPS.filter((op) => (TABLE.regions || works(op) || op.id === asked) && (!words || matches(op, words)));
  const value = new Map(found.map((op) => [op, column.of(op)]));
  found.sort((a, b) => { const x = value.get(a), y = value.get(b); return (x < y ? -1 : x > y ? 1 : 0) * (TABLE.down ? -1 : 1) || a.id - b.id; });
  const total = found.length;
  if (asked !== null && BY_ID.has(asked)) found = [BY_ID.get(asked), ...found.filter((op) => op.id !== asked)];
  const headings = COLUMNS.map((one) => ({ ...one, sorted: one.key === TABLE.by ? (TABLE.down ? "descending" : "ascending") : null,
    sort: () => { TABLE.down = one.key === TABLE.by ? !TABLE.down : Boolean(one.n); TABLE.by = one.key; refresh(); } }));
  const rows = found.slice(0, TABLE.most).map((op) => operationRow(op, asked));
  return [table(headings, rows), total > TABLE.most ? el("p", null, el("button", { type: "button", onclick: () => { TABLE.most *= 4; refresh(); } }, `show more (${numberText(total - TABLE.most)} left)`)) : "",
    total ? "" : el("p.empty", null, "Nothing matches.")];
}

function operationRow(op, asked) {
  const { best, gain, between, sure } = bestOf(op);
  return row([
    el("td", null, opName(op.short, op.name), op.kind === "call" || op.kind === "operator" ? null : el("span.chip", null, op.kind)),
    el("td", null, el("a", { href: `#graph/op/${op.id}`, title: `${op.file}:${op.line}\n${op.context}\nshow in the graph` }, where(op))),
    num(numberText(op.calls)), num(timeText(op.own)), num(works(op) ? shareText(op.own / (DATA.whole.seconds || 1)) : ""), num(timeText(op.own / Math.max(op.calls, 1))),
    num(sizeText(op.in)), num(sizeText(op.out)), num(rate(op) ? `${sizeText(rate(op))}/s` : ""), boundBy(op), el("td", { title: op.effects }, works(op) ? effectsOf(op) : ""),
    best ? runsAs(best.pu, best.variant) : el("span.soft", null, COSTS.has(op.id) ? "as written" : "not measured"),
    num(best && gain ? between || timesText(gain) : ""), sure,
  ], { id: `op-${op.id}`, class: op.id === asked ? "chosen" : null });
}
