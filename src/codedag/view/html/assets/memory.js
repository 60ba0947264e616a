// Memory: what the processes held over time (measured), what one pass through the program keeps alive (from the graph), and whose it is.

function stepsChart(series, end, options) {
  const width = 1200, height = 190, left = 80, most = Math.max(...series.map((one) => Math.max(...one.steps.map(([, bytes]) => bytes))), 1);
  const x = (time) => left + time / (end || 1) * (width - left - 10), y = (bytes) => height - 24 - bytes / most * (height - 44);
  const parts = [];
  for (const tick of ticks(0, end)) parts.push(draw("path.axis", { d: `M${x(tick)} 10V${height - 24}` }), draw("text", { x: Math.min(x(tick), width - 2), y: height - 8, "text-anchor": x(tick) + 26 > width ? "end" : "middle" }, timeText(tick)));
  for (const part of [0, 0.5, 1]) parts.push(draw("path.axis", { d: `M${left} ${y(part * most)}H${width}` }), draw("text", { x: left - 6, y: y(part * most) + 4, "text-anchor": "end" }, sizeText(part * most)));
  for (const one of series) {
    let path = "";
    one.steps.forEach(([time, bytes], at) => { path += at ? (options.straight ? `L${x(time)} ${y(bytes)}` : `H${x(time)}V${y(bytes)}`) : `M${x(time)} ${y(bytes)}`; });
    const last = one.steps[one.steps.length - 1];
    if (!options.straight) path += `H${x(end)}`;
    parts.push(draw("path.area", { d: `${path}V${y(0)}H${x(one.steps[0][0])}Z`, fill: one.colour, stroke: "none" }), draw("path", { d: path, fill: "none", stroke: one.colour, "stroke-width": 2 }, draw("title", null, `${one.name}: ends at ${sizeText(last[1])}`)));
    if (one.peakTime !== undefined) parts.push(draw("circle", { cx: x(one.peakTime), cy: y(one.peak), r: 5, fill: "var(--mark)" }, draw("title", null, `peak ${sizeText(one.peak)} at ${timeText(one.peakTime)}`)));
  }
  return el("div", null, draw("svg.chart", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": options.label }, parts),
    el("div.legend", null, series.map((one) => el("span", null, el("i", { style: `background:${one.colour}` }), one.name))));
}

function residentCard() {
  const events = DATA.events, samples = events ? events.memory : [];
  if (!samples.length) return card("w12", "Measured: memory of the processes", events ? el("p", null, "The memory of the processes was not sampled on this system.") : missing("events"));
  const series = new Map();
  for (const [process, seconds, nbytes] of samples) {
    if (!series.has(process)) series.set(process, { name: series.size ? `process ${process}` : "program", colour: series.size ? `var(--v${series.size % 8 + 1})` : "var(--accent)", steps: [], peak: 0, peakTime: 0 });
    const one = series.get(process);
    one.steps.push([seconds, nbytes]);
    if (nbytes > one.peak) { one.peak = nbytes; one.peakTime = seconds; }
  }
  const lines = [...series.values()], last = Math.max(...samples.map(([, seconds]) => seconds));
  return card("w12", "Measured: memory of the processes", stepsChart(lines, Math.max(events.seconds, 1e-9), { straight: true, label: "resident memory over time" }),
    el("p", null, lines.map((one) => `${one.name}: at most ${sizeText(one.peak)} at ${timeText(one.peakTime)}. `)), el("p.soft.small", null, "Resident memory, sampled now and then while the program ran: with the interpreter, all libraries and CodeDAG itself.", last < 0.9 * events.seconds ? ` After ${timeText(last)} the program ran unobserved.` : ""));
}

function liveCard() {
  const instance = planInstance();
  if (!instance) return card("w12", "Live bytes of one pass", DATA.plan ? el("p", null, whyNoWhatIf()) : missing("plan"));
  const result = simulate(instance, null);
  if (result.error) return card("w12", "Live bytes of one pass", el("p.notice.bad", null, result.error));
  const each = (id) => { const op = BY_ID.get(id); return op ? op.out / Math.max(op.calls, 1) : 0; };
  const found = liveBytes(instance, result.items, each);
  if (!found.size) return card("w12", "Live bytes of one pass", el("p", null, "No operation of the plan has a result with bytes."));
  const series = [...found].map(([pu, one], at) => ({ name: `${puLabel(pu)}: at most ${sizeText(one.peak)}`, colour: at ? `var(--v${at % 8 + 1})` : "var(--bar-after)", steps: one.steps, peak: one.peak, peakTime: one.peakTime }));
  return card("w12", "Live bytes of one pass (simulated)", stepsChart(series, result.makespan, { label: "live bytes over the planned time" }),
    el("p.soft.small", null, "Every operation once, with the mean size of its results: a result lives from the start of its operation until its last reader has ended. The point is the peak."),
    [...found].map(([pu, one]) => el("div", null, el("h3", null, `Who holds the peak on ${puLabel(pu)} (${sizeText(one.peak)} at ${timeText(one.peakTime)})`),
      table([{ name: "result of" }, { name: "where" }, { name: "bytes", n: true }, { name: "share of the peak", n: true }], one.owners.map(([id, bytes]) => { const op = BY_ID.get(id); return row([el("span.name", null, op ? op.short : `op ${id}`), op ? opLink(op, where(op)) : "", num(sizeText(bytes)), num(shareText(bytes / one.peak))]); })))));
}

function largestCard() {
  const peaks = OPS.some((op) => op.peak);
  const size = (op) => peaks ? op.peak : op.out / Math.max(op.calls, 1);
  const found = OPS.filter((op) => works(op) && size(op) > 0).sort((a, b) => size(b) - size(a)).slice(0, 15);
  if (!found.length) return null;
  return card("w12", peaks ? "Operations that allocate most (peak of one call)" : "Operations with the largest results (mean of one call)", bars(found.map((op) => ({ label: el("span", null, opLink(op)), value: size(op), words: `${sizeText(size(op))} · ${many(op.calls, "call")}`, colour: "var(--heat3)" }))),
    peaks ? null : el("p.soft.small", null, "What an operation allocates while it runs was not measured: ", code("codedag trace --memory"), " does."));
}

PAGES.push({ id: "memory", title: "Memory", show(page) { page.append(el("div.grid", null, residentCard(), liveCard(), DATA.ops ? largestCard() : null)); } });
