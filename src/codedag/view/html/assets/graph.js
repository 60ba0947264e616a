// Graph: boxes of operations in frames of the user's functions; a click on a folded box opens it where it stands.

// Folds that are open are known by their keys, the one that was opened last at the end.
const LOOK = { tree: 0, open: [], colour: "time", after: false, search: "", chosen: null, x: 0, y: 0, zoom: 0 };
const HEATS = [[0.2, "var(--heat4)", "from 20 %"], [0.08, "var(--heat3)", "from 8 %"], [0.02, "var(--heat2)", "from 2 %"], [0.005, "var(--heat1)", "from 0.5 %"], [0, "var(--heat0)", "less"]];

// What operations take after the plan, by the clock of the recorded run: what is as written takes what it took, and what
// is not is faster by as much as was measured. Costs alone may be of a quieter hour.
function plannedSeconds() {
  const found = new Map();
  for (const [op, start, end] of (DATA.plan || {}).schedule || []) {
    const seen = BY_ID.get(op), placed = PLACED.get(op), base = costOf(op, "cpu", "original");
    if (seen && placed && asWritten(placed.pu, placed.variant)) found.set(op, seen.own);
    else found.set(op, seen && base && base.seconds > 0 ? (end - start) * seen.own / base.seconds : end - start);
  }
  return found;
}

function boxFacts(box, planned) {
  const ops = (box.rows || []).map((at) => BY_ROW.get(at)).filter(Boolean);
  const whole = ops.length === box.operations && ops.every((op) => planned.has(op.id) || !works(op));
  const after = whole ? ops.reduce((sum, op) => sum + (planned.get(op.id) || 0), 0) : box.seconds;
  const weight = new Map();
  for (const op of ops) if (PLACED.has(op.id)) {
    const { pu, variant } = PLACED.get(op.id), key = JSON.stringify([pu, variant]);
    weight.set(key, (weight.get(key) || 0) + op.own + (asWritten(pu, variant) ? 0 : 1e-9));
  }
  const most = [...weight].sort((a, b) => b[1] - a[1])[0];
  return { ops, after, placed: most ? JSON.parse(most[0]) : null };
}

// Why an operation was left as it is, by the places that the report names; one that was changed later was not left.
function declinedAt(op) {
  if (declinedAt.of !== DATA) {
    declinedAt.of = DATA;
    declinedAt.places = ((DATA.report || {}).declined || []).map((one) => [one, one.where.match(/^(.*):(\d+)(?:-(\d+))?$/)]).filter(([, at]) => at);
  }
  const found = declinedAt.places.find(([, [, file, first, last]]) => file === op.file && op.line >= Number(first) && op.line <= Number(last || first));
  return works(op) && found && !movesOf().has(op.id) ? found[0] : null;
}

function boxColour(box, known, totals) {
  if (LOOK.colour === "time") {
    const share = (LOOK.after ? known.after / totals.after : box.seconds / totals.before) || 0;
    return HEATS.find(([least]) => share >= least)[1];
  }
  return LOOK.after && known.placed ? shadeOf(...known.placed) : "var(--plain)";
}

PAGES.push({ id: "graph", title: "Graph", full: true, show(page, rest) {
  if (!DATA.picture || !DATA.ops.id.length) return page.append(empty("No graph", DATA.ops ? "No operation on data was recorded." : missing("graph")));
  if (LOOK.tree >= DATA.picture.folds.length) LOOK.tree = 0;
  if (LOOK.of !== DATA) { LOOK.of = DATA; LOOK.open = LOOK.open.filter((key) => foldAt(key)); LOOK.chosen = null; }
  const asked = rest.match(/^op\/(\d+)$/);
  if (asked) goTo(Number(asked[1]));
  const canvas = el("div.canvas"), aside = el("aside.card", { "aria-live": "polite" });
  const refresh = () => { page.replaceChildren(graphTools(refresh), graphLegend(), el("div.graph", null, canvas, aside)); drawView(canvas, aside, refresh); };
  refresh();
} });

// ---- opening and closing

// The fold of a key, or nothing: data that came anew may be folded otherwise.
function foldAt(key) {
  let parts = DATA.picture.folds[LOOK.tree], found = null;
  for (const step of key.split("/").slice(1)) {
    found = parts && parts[Number(step)];
    if (!Array.isArray(found)) return null;
    parts = found[1];
  }
  return found && found[2] ? found : null;
}

// The picture as it is opened now, made once.
function shownNow() {
  const key = [LOOK.tree, ...LOOK.open].join();
  if (shownNow.of !== DATA || shownNow.key !== key) {
    const open = new Set(LOOK.open);
    Object.assign(shownNow, { of: DATA, key, picture: pictureOf(DATA.picture.folds[LOOK.tree], (one) => open.has(one)) });
  }
  return shownNow.picture;
}
const placedNow = () => { const picture = shownNow(); picture.layout = picture.layout || placed(picture); return picture.layout; };

// Opens a fold; when there are too many boxes then, those that were opened longest ago are closed.
function openFold(key) {
  LOOK.open = [...LOOK.open.filter((one) => one !== key), key];
  LOOK.chosen = null;
  for (const old of LOOK.open.slice()) {
    if (shownNow().boxes.length <= MOST_SHOWN) break;
    if (!`${key}/`.startsWith(`${old}/`)) closeFold(old);
  }
}

function closeFold(key) {
  LOOK.open = LOOK.open.filter((one) => !`${one}/`.startsWith(`${key}/`));
  LOOK.chosen = null;
}

// Opens all that an operation is folded into, and chooses its box.
function goTo(id) {
  const op = BY_ID.get(id), unit = op ? DATA.picture.units.findIndex((one) => one[8].includes(op.row)) : -1;
  if (unit < 0) return;
  LOOK.zoom = 0;
  for (;;) {
    const shown = shownNow(), box = shown.boxes.find((one) => one.members.includes(unit));
    if (!box.key) { LOOK.chosen = box.number; return; }
    openFold(box.key);
  }
}

function press(words, on, act, title) { return el("button", { type: "button", "aria-pressed": String(on), onclick: act, title }, words); }

function graphTools(refresh) {
  const set = (change) => () => { Object.assign(LOOK, change); refresh(); };
  const plan = Boolean(DATA.plan), picture = DATA.picture, count = shownNow().boxes.length;
  return el("div.tools", null,
    el("span.soft.small", { id: "shown" }, `${many(picture.operations, "operation")} in ${many(count, "box", "boxes")}, ${timeText(picture.seconds)}`),
    picture.folds.length > 1 ? el("span.group", { role: "group", "aria-label": "detail" },
      press("overview", LOOK.tree === 0, set({ tree: 0, open: [], chosen: null, zoom: 0 })), press("detailed", LOOK.tree === 1, set({ tree: 1, open: [], chosen: null, zoom: 0 }))) : null,
    LOOK.open.length ? el("button", { type: "button", id: "fold-all", onclick: set({ open: [], chosen: null, zoom: 0 }) }, `close ${LOOK.open.length} opened`) : null,
    el("span.group", { role: "group", "aria-label": "colour" }, press("colour: time", LOOK.colour === "time", set({ colour: "time" })), press("colour: PU / variant", LOOK.colour === "pu", set({ colour: "pu" }))),
    el("span.group", { role: "group", "aria-label": "before or after the plan", title: plan ? "" : "there is no plan.json in this run" },
      press("before", !LOOK.after, set({ after: false })), el("button", { type: "button", disabled: !plan, "aria-pressed": String(LOOK.after), onclick: set({ after: true }) }, "after")),
    el("input", { type: "search", placeholder: "search names, files, lines", "aria-label": "search", value: LOOK.search,
      oninput: (event) => { LOOK.search = event.target.value; markHits(); listHits(refresh); } }),
    el("span.group", { role: "group", "aria-label": "size" }, el("button", { type: "button", onclick: () => zoomBy(1.25), "aria-label": "larger" }, "+"),
      el("button", { type: "button", onclick: () => zoomBy(0.8), "aria-label": "smaller" }, "−"), el("button", { type: "button", id: "fit", onclick: () => fit("all") }, "fit")));
}

function graphLegend() {
  const line = (kind, words) => el("span", null, draw("svg", { width: 28, height: 8 }, draw(`g.l.${kind}`, null, draw("path.line", { d: "M0 4h26", "stroke-width": 2 }))), words);
  let first;
  if (LOOK.colour === "time") first = ["share of the time:", HEATS.slice().reverse().map(([, colour, words]) => el("span", null, el("i", { style: `background:${colour}` }), words))];
  else {
    const kinds = new Map([["as written", "var(--plain)"]]);
    if (LOOK.after) for (const { pu, variant } of PLACED.values()) if (!asWritten(pu, variant)) kinds.set(runsAs(pu, variant), shadeOf(pu, variant));
    first = ["runs as:", [...kinds].map(([words, colour]) => el("span", null, el("i", { style: `background:${colour}` }), words))];
  }
  const { links, boxes, notes } = shownNow(), drawn = new Set(links.map((link) => link.kind));
  return el("div.legend", null, first, line("flow", "data (wider: more bytes)"), drawn.has("anti") ? line("anti", "order only") : null, drawn.has("carried") ? line("carried", "to a later iteration or call") : null,
    (DATA.report || { declined: [] }).declined.length ? el("span", null, el("i", { style: "border:2px solid var(--bad)" }), "was considered and left as it is") : null,
    LOOK.open.length || boxes.some((box) => box.key) ? el("span", null, el("i", { style: "border-style:dashed;border-width:2px" }), "folded: click to open, and its heading to close") : null, [...notes, ...DATA.picture.notes].map((note) => el("span", null, note)));
}

function linkTitle(boxes, link) {
  const ends = `${boxes[link.source].words[0]} → ${boxes[link.target].words[0]}`;
  return link.kind === "flow" ? `${ends}: ${sizeText(link.nbytes)}` : link.kind === "anti" ? `${ends}: must not write before the other has read` : `${ends}: feeds a later iteration, or a later run of that code`;
}

let VIEW = null; // what is on the screen now

function drawView(canvas, aside, refresh) {
  const picture = shownNow(), layout = placedNow(), planned = plannedSeconds();
  const view = { ...layout, links: picture.links, boxes: picture.boxes.map((box, at) => Object.assign(box, { at: layout.boxes[at] })) };
  const totals = { before: DATA.whole.seconds, after: [...planned.values()].reduce((a, b) => a + b, 0) };
  const known = view.boxes.map((box) => boxFacts(box, planned)), layer = draw("g");
  for (const [frame, { x, y, width, height }] of view.frames)
    layer.append(draw("g", null, draw("title", null, frame.path.join("/")), draw("rect", { x, y, width, height, rx: 7, fill: `var(--frame${frame.path.length % 2})`, stroke: "var(--frame-line)", "stroke-dasharray": frame.key ? "2 3" : null })));
  const links = view.links.map((link, at) => {
    const [path, head] = linkPath(layout, at, link);
    return draw(`g.l.${link.kind}`, null, draw("title", null, linkTitle(view.boxes, link)), draw("path.line", { d: path, "stroke-width": thickness(link), "stroke-opacity": link.kind === "flow" ? 0.75 : 1 }), draw("path.head", { d: head }));
  });
  const headings = drawHeadings(view, (key) => { keepPlace(key, () => closeFold(key)); refresh(); });
  const boxes = view.boxes.map((box, at) => drawBox(box, known[at], totals, () => pick(at), at));
  layer.append(...links, ...headings, ...boxes, ...sizeLabels(layout, view.links).map(([x, y, words]) => draw("text.s", { x, y }, words)));
  const svg = draw("svg", { role: "group", "aria-label": "dataflow graph", tabindex: 0 }, layer);
  canvas.replaceChildren(svg);
  VIEW = { view, known, links, boxes, layer, svg, aside, refresh };
  function pick(at) {
    const { key } = view.boxes[at];
    if (key) { keepPlace(key, () => openFold(key)); return refresh(); }
    LOOK.chosen = at;
    choose();
  }
  moving(svg);
  choose();
  markHits();
  if (LOOK.search) listHits(refresh);
  requestAnimationFrame(() => fit(!LOOK.zoom));
}

// Where a fold is drawn: as a box, or as the heading of its frame.
function foldPlace(view, key) {
  const box = view.boxes.find((one) => one.key === key), frame = view.frames.find(([one, , first]) => first && one.key === key);
  return box ? box.at : frame ? frame[1] : null;
}

// What was clicked stays where it is on the screen, whatever moves around it; what is too large then is made smaller.
function keepPlace(key, change) {
  const before = foldPlace(VIEW.view, key);
  if (!before) { change(); LOOK.zoom = 0; return; }
  const [x, y] = [before.x * LOOK.zoom + LOOK.x, before.y * LOOK.zoom + LOOK.y];
  change();
  const picture = shownNow(), layout = placedNow();
  const after = foldPlace({ frames: layout.frames, boxes: picture.boxes.map((box, at) => ({ key: box.key, at: layout.boxes[at] })) }, key);
  if (!after) { LOOK.zoom = 0; return; }
  const { width, height } = VIEW.svg.getBoundingClientRect(), fits = Math.min((width - 30) / after.width, (height - 30) / after.height);
  LOOK.zoom = Math.min(LOOK.zoom, Math.max(fits, 0.6));
  const inside = (at, size, room) => Math.max(15, Math.min(at, room - 15 - size * LOOK.zoom));
  LOOK.x = inside(x, after.width, width) - after.x * LOOK.zoom;
  LOOK.y = inside(y, after.height, height) - after.y * LOOK.zoom;
}

// The names of functions; those of opened folds close them. Of frames that go on together in another column the innermost names all.
function drawHeadings(view, close) {
  return view.frames.map(([frame, rect, first]) => {
    const inner = !first && view.frames.some(([other, place, begins]) => other !== frame && !begins && place.y === rect.y && rect.x <= place.x && place.x + place.width <= rect.x + rect.width);
    const words = first ? frame.title : inner ? "" : `${frame.path.join(" / ")} (goes on)`, text = draw("text.f", { x: rect.x + 10, y: rect.y + 17 }, cut(words, 6.8, rect.width - 16));
    if (!frame.key || !first) return text;
    const act = () => close(frame.key);
    return draw("g.o", { tabindex: 0, role: "button", "aria-expanded": "true", "aria-label": `${frame.name}: close`, "data-fold": frame.key,
      onclick: (event) => { if (!event.currentTarget.ownerSVGElement.dataset.moved) act(); },
      onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } } },
    draw("title", null, "click to close"), draw("rect.heading", { x: rect.x + 2, y: rect.y + 2, width: rect.width - 4, height: HEADING - 4, rx: 6 }), text);
  });
}

function drawBox(box, known, totals, act, at) {
  const { x, y, width, height } = box.at, folded = Boolean(box.key);
  const words = [cutFront(box.words[0], 7.3, width - 14), ...box.words.slice(1).map((line) => cut(line, 5.9, width - 12))];
  if (LOOK.after && box.kind === "place" && known.ops.length) {
    const same = Math.abs(known.after - box.seconds) <= 1e-3 * box.seconds;
    if (!same) words[1] = `${timeText(box.seconds)} → ${known.after ? timeText(known.after) : "in one"}`;
  }
  const declined = known.ops.some(declinedAt);
  const kinds = [declined && !folded ? "declined" : "", folded ? "folded" : ""].filter(Boolean);
  const label = `${box.words.join(", ")}${folded ? ", folded: opens" : ""}`;
  return draw(["g", "b", ...kinds].join("."), { tabindex: 0, role: "button", "aria-label": label, "data-box": at,
    onclick: (event) => { if (!event.currentTarget.ownerSVGElement.dataset.moved) act(); },
    onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } } },
  draw("title", null, boxTitle(box, known)),
  folded && draw("rect", { x: x + 4, y: y + 4, width, height, rx: 4, fill: "var(--card)", stroke: "var(--frame-line)" }),
  draw("rect.box", { x, y, width, height, rx: box.kind === "source" ? 18 : 4, fill: boxColour(box, known, totals) }),
  draw("text.n", { x: x + 9, y: y + 19 }, words[0]),
  words[1] && draw("text", { x: x + 9, y: y + 35 }, words[1]), words[2] && draw("text.q", { x: x + 9, y: y + 50 }, words[2]));
}

function boxTitle(box, known) {
  const lines = known.ops.slice(0, 10).map((op) => `${timeText(op.own)}  ${op.name}  ${op.file}:${op.line}`);
  const head = box.key ? `${box.words[0]}: ${many(box.operations, "operation")}, ${timeText(box.seconds)}; click to open` : box.words[0];
  return [head, ...lines].join("\n");
}

function choose() {
  const { view, known, links, boxes, aside } = VIEW, at = LOOK.chosen;
  boxes.forEach((box, n) => box.classList.toggle("on", n === at));
  links.forEach((link, n) => link.classList.toggle("near", at !== null && (view.links[n].source === at || view.links[n].target === at)));
  if (at === null || !view.boxes[at]) aside.replaceChildren(el("h2", null, "Whole program"),
    el("p", null, "Click a box for its facts; a dashed box holds several operations and opens where it stands. Drag to move, wheel or +/− to zoom, Tab to walk from box to box."), ...hotList(view));
  else aside.replaceChildren(...boxDetails(view.boxes[at], known[at]).flat(3));
}

function hotList(view) {
  const hot = view.boxes.map((box, at) => [box, at]).filter(([box]) => box.seconds > 0).sort((a, b) => b[0].seconds - a[0].seconds).slice(0, 12);
  return [el("h3", null, "Hottest boxes here"), bars(hot.map(([box]) => ({ label: box.words[0], title: box.words[0], value: box.seconds, words: timeText(box.seconds), colour: "var(--heat3)" })))];
}

function boxDetails(box, known) {
  const op = known.ops[0];
  if (!op) return [el("h2", null, box.words[0]), el("p", null, `${many(box.operations, "operation")}, ${timeText(box.seconds)}. There are too many operations in this run to list these one by one.`)];
  if (box.kind === "function") return [el("h2", null, box.words[0]), el("p", null, `${many(box.operations, "operation")}, ${timeText(box.seconds)}: too many to be drawn one by one. The hottest in it:`),
    el("ul", null, known.ops.slice().sort((a, b) => b.own - a.own).slice(0, 20).map((one) => el("li", null, opLink(one), ` ${timeText(one.own)}`)))];
  const calls = known.ops.reduce((sum, one) => sum + one.calls, 0), own = known.ops.reduce((sum, one) => sum + one.own, 0);
  return [el("h2.mono", null, op.name), facts([["where", `${op.file}:${op.line}`], ["in", op.context], ["kind", op.kind], works(op) && ["effects", op.effects], ["calls", numberText(calls)],
    ["own time", `${timeText(own)} (${shareText(own / (DATA.whole.seconds || 1))})`], ["each", timeText(own / Math.max(calls, 1))],
    DATA.plan && ["after the plan", timeText(known.after)], ["bytes in / out", `${sizeText(known.ops.reduce((s, o) => s + o.in, 0))} / ${sizeText(known.ops.reduce((s, o) => s + o.out, 0))}`],
    op.peak ? ["peak of one call", sizeText(op.peak)] : null]),
  known.ops.slice(0, 6).map((one) => el("p.mono.small", null, `(${one.ins}) → ${one.outs || "()"}`)),
  declinedAt(op) ? el("p.notice", null, `Left as it is: ${declinedAt(op).reason}.`) : "",
  costTable(op), el("p", null, opLink(op, "in the table of operations"))];
}

function costTable(op) {
  const rows = COSTS.get(op.id);
  if (!rows) return el("p.soft", null, "No costs were measured for it.");
  const placed = PLACED.get(op.id);
  return [el("h3", null, "Measured costs"), table([{ name: "PU / variant" }, { name: "time", n: true }], rows.map((one) => row([
    el("td", null, `${runsAs(one.pu, one.variant)} `, placed && placed.pu === one.pu && placed.variant === one.variant ? el("span.chip.good", null, "planned") : null),
    num(one.status === "ok" ? timeText(one.seconds) : one.status, one.status === "ok" ? interval(one) : one.reason)])))];
}
const interval = (one) => one.low === null || one.high === null ? "no interval" : `between ${timeText(one.low)} and ${timeText(one.high)}`;

// ---- search

function matches(op, words) { return `${op.name} ${op.short} ${op.file}:${op.line} ${op.context}`.toLowerCase().includes(words); }

function markHits() {
  const words = LOOK.search.trim().toLowerCase();
  VIEW.boxes.forEach((shape, at) => {
    const box = VIEW.view.boxes[at];
    const hit = words && (VIEW.known[at].ops.some((op) => matches(op, words)) || box.words[0].toLowerCase().includes(words));
    shape.classList.toggle("hit", Boolean(hit));
    shape.classList.toggle("miss", Boolean(words) && !hit);
  });
}

function listHits(refresh) {
  const words = LOOK.search.trim().toLowerCase();
  if (!words) return choose();
  const found = OPS.filter((op) => matches(op, words)).sort((a, b) => b.own - a.own);
  VIEW.aside.replaceChildren(el("h2", null, `${numberText(found.length)} found`), el("ul", null, found.slice(0, 60).map((op) => el("li", null,
    el("a", { href: `#graph/op/${op.id}`, onclick: (event) => { event.preventDefault(); goTo(op.id); refresh(); } }, opLabel(op)), ` ${timeText(op.own)}`))),
  found.length > 60 ? el("p.soft", null, `and ${found.length - 60} more`) : "");
}

// ---- moving about

function place() { VIEW.layer.setAttribute("transform", `translate(${LOOK.x} ${LOOK.y}) scale(${LOOK.zoom})`); }

function fit(anew) {
  if (!anew) return place();
  const { width, height } = VIEW.svg.getBoundingClientRect(), view = VIEW.view;
  if (!width) return;
  const all = Math.min((width - 30) / view.width, (height - 30) / view.height);
  // A picture that would be too small to read starts at its top at a size that is; the button and "0" show all of it.
  LOOK.zoom = Math.min(1.15, all >= 0.6 || anew === "all" ? Math.max(all, 0.04) : 0.76);
  LOOK.x = Math.max(15, (width - view.width * LOOK.zoom) / 2);
  if (view.width * LOOK.zoom > width - 30) LOOK.x = view.ways.size ? 15 : Math.min(15, width / 2 - middleOf(view) * LOOK.zoom);
  LOOK.y = Math.max(15, (height - view.height * LOOK.zoom) / 2);
  if (LOOK.chosen !== null && view.boxes[LOOK.chosen] && all < LOOK.zoom) {
    const { x, y, width: w, height: h } = view.boxes[LOOK.chosen].at;
    LOOK.x = width / 2 - (x + w / 2) * LOOK.zoom;
    LOOK.y = height / 2 - (y + h / 2) * LOOK.zoom;
  }
  place();
}

// Where the boxes at the top are: a picture that is wider than the screen begins there.
function middleOf(view) {
  const first = view.boxes.filter((box) => box.at.y < 300), some = first.length ? first : view.boxes;
  return some.reduce((total, box) => total + box.at.x + box.at.width / 2, 0) / some.length;
}

function zoomBy(factor, x, y) {
  const { width, height } = VIEW.svg.getBoundingClientRect();
  const at = [x === undefined ? width / 2 : x, y === undefined ? height / 2 : y];
  const next = Math.min(4, Math.max(0.04, LOOK.zoom * factor));
  LOOK.x = at[0] - (at[0] - LOOK.x) * next / LOOK.zoom;
  LOOK.y = at[1] - (at[1] - LOOK.y) * next / LOOK.zoom;
  LOOK.zoom = next;
  place();
}

function moving(svg) {
  let from = null;
  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { left, top } = svg.getBoundingClientRect();
    if (event.ctrlKey || !event.shiftKey) zoomBy(Math.exp(-event.deltaY / 400), event.clientX - left, event.clientY - top);
    else { LOOK.x -= event.deltaY; place(); }
  }, { passive: false });
  svg.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY, LOOK.x, LOOK.y]; delete svg.dataset.moved; });
  svg.addEventListener("pointermove", (event) => {
    if (!from) return;
    const [x, y] = [event.clientX - from[0], event.clientY - from[1]];
    if (Math.abs(x) + Math.abs(y) > 4) { svg.dataset.moved = "yes"; svg.classList.add("drag"); }
    LOOK.x = from[2] + x; LOOK.y = from[3] + y;
    place();
  });
  for (const end of ["pointerup", "pointerleave"]) svg.addEventListener(end, () => { from = null; svg.classList.remove("drag"); });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (step) { LOOK.x += step[0]; LOOK.y += step[1]; place(); event.preventDefault(); }
    else if (event.key === "+" || event.key === "=") zoomBy(1.25);
    else if (event.key === "-") zoomBy(0.8);
    else if (event.key === "0") fit("all");
    else if ((event.key === "Escape" || event.key === "Backspace") && LOOK.open.length) {
      const last = LOOK.open[LOOK.open.length - 1];
      keepPlace(last, () => closeFold(last));
      VIEW.refresh();
      VIEW.svg.focus();
    }
  });
}
