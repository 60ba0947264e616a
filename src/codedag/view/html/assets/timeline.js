// Timeline: when calls ran on threads and processes (measured), and when the plan runs them on processing units (simulated).

function planInstance() {
  if (!DATA.plan || !DATA.edges || !DATA.plan.schedule.length) return null;
  if (planInstance.of === DATA) return planInstance.made;
  const scratch = new Map();
  for (const [op, pu, variant, , , , , , bytes] of DATA.costs ? DATA.costs.rows : []) {
    const placed = PLACED.get(op);
    if (placed && placed.pu === pu && placed.variant === variant) scratch.set(op, bytes);
  }
  planInstance.of = DATA;
  planInstance.made = instanceOf({ machine: DATA.machine, plan: DATA.plan, edges: DATA.edges, nbytes: new Map(OPS.map((op) => [op.id, op.out])), scratch });
  return planInstance.made;
}

// A chart of lanes with bars; wheel or buttons zoom into time, drag moves.
function lanesChart(lanes, end, options) {
  const left = 190, rowHeight = 19, begin = options.begin || 0;
  if (!(end > begin)) end = begin + 1e-6; // nothing took any time
  const state = { from: begin, to: end };
  const rows = lanes.reduce((sum, lane) => sum + lane.rows, 0);
  const height = 30 + rows * rowHeight + lanes.length * 10;
  const svg = draw("svg.chart", { height, tabindex: 0, role: "img", "aria-label": options.label });
  const holder = el("div", null, svg);
  function paint() {
    const width = Math.max(holder.clientWidth || 900, 500), span = state.to - state.from;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const x = (time) => left + (time - state.from) / span * (width - left - 40);
    const parts = [];
    for (const tick of ticks(state.from, state.to)) parts.push(draw("path.axis", { d: `M${x(tick)} 20V${height}` }), draw("text", besideTick(x(tick), width, 14), timeText(tick)));
    for (const mark of options.marks || []) if (mark.seconds >= state.from && mark.seconds <= state.to)
      parts.push(draw("path", { d: `M${x(mark.seconds)} 16V${height}`, stroke: "var(--mark)", "stroke-width": 1.5, "stroke-dasharray": "5 3" }), draw("text", { x: x(mark.seconds) + 3, y: 26, style: "fill:var(--mark)" }, mark.name));
    let y = 28;
    for (const lane of lanes) {
      parts.push(draw("text.lane", { x: 4, y: y + 13 }, draw("title", null, lane.name), lane.name.length > 30 ? `${lane.name.slice(0, 29)}…` : lane.name));
      for (const one of lane.items) {
        if (one.end < state.from || one.start > state.to) continue;
        const a = Math.max(x(one.start), left), b = Math.min(x(one.end), width - 40), wide = Math.max(b - a, 1);
        parts.push(draw(one.critical ? "rect.call.critical" : "rect.call", { x: a, y: y + one.row * rowHeight, width: wide, height: rowHeight - 3, rx: wide > 6 ? 2 : 0, fill: one.colour, style: wide < 3 ? "stroke:none" : null }, draw("title", null, one.title)));
        const fits = Math.floor((wide - 6) / 6.2);
        if (fits >= 4) parts.push(draw("text.onbar", { x: a + 4, y: y + one.row * rowHeight + 12 }, one.label.length > fits ? `${one.label.slice(0, fits - 1)}…` : one.label));
      }
      y += lane.rows * rowHeight + 10;
      parts.push(draw("path.axis", { d: `M0 ${y - 6}H${width}` }));
    }
    svg.replaceChildren(...parts);
  }
  function zoom(factor, middle) {
    const at = middle === undefined ? (state.from + state.to) / 2 : middle, span = Math.min((state.to - state.from) / factor, end - begin);
    state.from = Math.max(begin, Math.min(at - (at - state.from) / factor, end - span));
    state.to = state.from + span;
    paint();
  }
  function slide(part) { const by = part * (state.to - state.from), step = Math.max(begin - state.from, Math.min(by, end - state.to)); state.from += step; state.to += step; paint(); }
  const timeAt = (event) => state.from + (event.clientX - svg.getBoundingClientRect().left - left) / Math.max(holder.clientWidth - left - 40, 1) * (state.to - state.from);
  svg.addEventListener("wheel", (event) => { if (event.ctrlKey || event.shiftKey) { event.preventDefault(); zoom(Math.exp(-(event.deltaY || event.deltaX) / 300), timeAt(event)); } }, { passive: false });
  svg.addEventListener("dblclick", (event) => zoom(3, timeAt(event)));
  svg.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "=") zoom(1.6); else if (event.key === "-") zoom(0.625); else if (event.key === "0") zoom(1e-9);
    else if (event.key === "ArrowLeft") slide(-0.2); else if (event.key === "ArrowRight") slide(0.2); else return;
    event.preventDefault();
  });
  requestAnimationFrame(paint);
  const button = (words, act, label) => el("button", { type: "button", onclick: act, "aria-label": label }, words);
  return el("div", null, el("div.tools", null, el("span.group", { role: "group", "aria-label": "time range" }, button("+", () => zoom(1.6), "zoom in"), button("−", () => zoom(0.625), "zoom out"), button("◂", () => slide(-0.3), "earlier"), button("▸", () => slide(0.3), "later"), button("all", () => zoom(1e-9), "everything")),
    el("span.hint", null, "double click or Ctrl + wheel to zoom")), holder);
}

// A label stands right of its line, or left of it where there is no more room.
const besideTick = (x, width, y) => x + 58 > width ? { x: x - 3, y, "text-anchor": "end" } : { x: x + 3, y };

function ticks(from, to) {
  const rough = (to - from) / 8, power = 10 ** Math.floor(Math.log10(rough || 1)), step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) || power, found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

const HUES = ["--v1", "--v2", "--v3", "--v4", "--v5", "--v6", "--v7", "--v8"];
function nameHue(name) {
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
  return `var(${HUES[hash % HUES.length]})`;
}

function depthOf(op) {
  let depth = 0;
  for (let up = op && BY_ID.get(op.parent); up && depth < 12; up = BY_ID.get(up.parent)) depth++;
  return depth;
}

function measuredCard() {
  const events = DATA.events;
  if (!events) return card("w12", "Measured", missing("events"));
  if (!events.calls.length) return card("w12", "Measured", el("p", null, "No calls were recorded."));
  const own = events.lanes[0].process, threads = new Map();
  const lanes = events.lanes.map((lane) => {
    threads.set(lane.process, (threads.get(lane.process) || 0) + 1);
    const owner = lane.process === own ? "program" : `process ${lane.process}`;
    return { name: `${owner} · ${lane.name || `thread ${threads.get(lane.process)}`}`, items: [], rows: 1 };
  });
  for (const [id, lane, start, end, nbytes] of events.calls) {
    const op = BY_ID.get(id), name = op ? op.short : `op ${id}`, depth = depthOf(op);
    lanes[lane].rows = Math.max(lanes[lane].rows, depth + 1);
    lanes[lane].items.push({ start, end, row: depth, label: name, colour: op && !works(op) ? "var(--plain)" : nameHue(name),
      title: `${op ? op.name : name}\n${op ? `${op.file}:${op.line}` : ""}\n${timeText(end - start)} from ${timeText(start)}\nout ${sizeText(nbytes)}` });
  }
  for (const lane of lanes) {
    const least = Math.min(...lane.items.map((one) => one.row));
    for (const one of lane.items) one.row -= least;
    lane.rows -= least;
  }
  const times = [...events.calls.flatMap((call) => [call[2], call[3]]), ...events.marks.map((mark) => mark.seconds)];
  const first = Math.min(...times), last = Math.max(...times), idle = first > 0.05 * last;
  return card("w12", "Measured: calls on threads and processes", lanesChart(lanes.filter((lane) => lane.items.length), last + 0.02 * (last - first), { begin: Math.max(0, first - 0.02 * (last - first)), label: "measured timeline", marks: events.marks }),
    el("p.soft.small", null, `${numberText(events.shown)} of ${numberText(events.seen)} calls are drawn: the first of each operation and the longest. Calls inside calls are drawn below them; your own functions are plain.${idle ? ` Before ${timeText(first)} the program was starting and loading libraries.` : ""}`,
      DATA.run && DATA.run.command === "run" ? " Under codedag run an operation is observed only until it has been seen often enough; after that it runs unobserved." : "", laneless(events)));
}

// A worker process that was killed under `codedag run` has told sums only, not when each call was.
function laneless(events) {
  const workers = (DATA.report || {}).workers || 0;
  return workers && new Set(events.lanes.map((lane) => lane.process)).size < 2 ? ` Single calls of the ${many(workers, "worker process", "worker processes")} were not recorded, only their sums; codedag trace records them.` : "";
}

function plannedCard(result, title, words) {
  const lanes = new Map(), critical = new Set(criticalPath(result));
  const several = new Set(result.items.map((item) => item.turn)).size > 1;
  const pusFirst = result.items.slice().sort((a, b) => Boolean(a.copy) - Boolean(b.copy));
  for (const item of pusFirst) {
    const name = item.copy ? `copy ${item.src} → ${item.dst}` : puLabel(item.pu), op = BY_ID.get(item.op);
    if (!lanes.has(name)) lanes.set(name, { name, items: [], rows: 1 });
    if (item.end > item.start) lanes.get(name).items.push({ start: item.start, end: item.end, row: 0, critical: several && critical.has(item), label: op ? op.short : `op ${item.op}`,
      colour: item.copy ? "var(--heat2)" : shadeOf(item.pu, (PLACED.get(item.op) || {}).variant || "original"), title: `${op ? `${op.name}\n${op.file}:${op.line}` : `op ${item.op}`}\n${timeText(item.end - item.start)} from ${timeText(item.start)}${critical.has(item) ? "\non the critical path" : ""}` });
  }
  return card("w12", title, words, lanesChart([...lanes.values()], result.makespan, { label: "planned timeline" }),
    el("div.legend", null, several ? el("span", null, el("i", { style: "border:2px solid var(--mark)" }), "on the critical path: shortening any other operation changes nothing") : el("span", null, "one unit, one operation after the other: all of it is the critical path"), result.items.some((item) => item.copy) ? el("span", null, el("i", { style: "background:var(--heat2)" }), "copy between units") : null));
}

function pathCard(result) {
  const path = criticalPath(result).filter((item) => item.end > item.start).sort((a, b) => (b.end - b.start) - (a.end - a.start)).slice(0, 15);
  return card("w12", "Longest steps of the critical path", table([{ name: "step" }, { name: "where" }, { name: "on" }, { name: "time", n: true }, { name: "share of the plan", n: true }],
    path.map((item) => { const op = BY_ID.get(item.op); return row([el("span.name", null, `${item.copy ? "copy of " : ""}${op ? op.short : `op ${item.op}`}`), op ? opLink(op, where(op)) : "", item.copy ? `${item.src} → ${item.dst}` : puLabel(item.pu), num(timeText(item.end - item.start)), num(shareText((item.end - item.start) / (result.makespan || 1)))]); })));
}

PAGES.push({ id: "timeline", title: "Timeline", show(page) {
  const instance = planInstance(), parts = [icicleCard(), measuredCard()];
  if (instance) {
    const result = simulate(instance, null);
    if (!result.error) parts.push(plannedCard(result, "Planned: operations on processing units (simulated)", el("p.soft.small", null, "Each operation once, with the sum of its recorded calls.")), pathCard(result));
    else parts.push(card("w12", "Planned", el("p.notice.bad", null, `The plan cannot be replayed: ${result.error}.`)));
  } else parts.push(card("w12", "Planned", DATA.plan ? el("p", null, DATA.plan.schedule.length ? "This run has too many operations to draw its plan; codedag view RUN --perfetto FILE writes it for a trace viewer." : "The plan has no schedule.") : missing("plan")));
  page.append(el("div.grid", null, parts));
} });
