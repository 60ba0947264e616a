// Speed over time: turns per second of each block, a mark at each change, blocks without changes as points.

const perSecond = ([, seconds, turns]) => seconds > 0 ? turns / seconds : 0;
const middle = ([start, seconds]) => start + seconds / 2;
const unitName = (unit) => /(s|x|ch|sh)$/.test(unit) ? `${unit}es` : `${unit}s`;

const MARKS_LISTED = 6;
const markItem = ([at, name]) => el("li", null, `${name} `, el("span.soft", null, `at ${timeText(at)}`));

function speedCard(speed, width) {
  const valid = speed.blocks.filter((block) => !block[4] && block[1] > 0), first = valid.findIndex((block) => block[3]);
  if (!valid.length) return null;
  const since = first < 0 ? Infinity : valid[first][0], units = unitName(speed.unit);
  const chart = speedChart(speed, valid, since, chartWidth(width));
  return card(width, "Speed of the program over time", chart, el("div.legend", null,
    dot("var(--bar-before)", "point", [el("b", null, speed.words[0]), " as written: a point is a block without changes"]),
    first < 0 ? null : dot("var(--bar-after)", "line", [el("b", null, speed.words[1]), " with the changes"]),
    speed.blocks.some((block) => block[4]) ? dot("var(--soft)", "cross", "a block that was disturbed and does not count") : null),
    speed.marks.length ? el("ol.marks", null, speed.marks.slice(0, MARKS_LISTED).map(markItem)) : null,
    speed.marks.length > MARKS_LISTED ? el("details", null, el("summary.soft", null, many(speed.marks.length - MARKS_LISTED, "more change")), el("ol.marks", { start: MARKS_LISTED + 1 }, speed.marks.slice(MARKS_LISTED).map(markItem))) : null,
    el("p.soft.small", null, `${units[0].toUpperCase()}${units.slice(1)} per second of wall time; a block is some ${units} timed together, dashed lines are medians.`));
}

// As wide as the card will be, so that letters keep their size.
function chartWidth(width) {
  const page = Math.min(innerWidth, 1636) - 36;
  return Math.max(Math.round((innerWidth > 950 ? page * Number(width.slice(1)) / 12 - 10 : page) - 34), 300);
}

function dot(colour, kind, ...words) {
  const shape = kind === "line" ? draw("path", { d: "M0 6H18", stroke: colour, "stroke-width": 2.5 }) : kind === "cross" ? cross(9, 6, colour) : draw("circle", { cx: 9, cy: 6, r: 3.5, fill: colour });
  return el("span", null, draw("svg", { width: 18, height: 12, "aria-hidden": "true" }, shape), words);
}
const cross = (x, y, colour, title) => draw("path", { d: `M${x - 3} ${y - 3}l6 6m0 -6l-6 6`, stroke: colour, fill: "none" }, title ? draw("title", null, title) : null);

function speedChart(speed, valid, since, width) {
  const height = 250, right = 12, top = 26, bottom = height - 24;
  const end = Math.max(...speed.blocks.map(([start, seconds]) => start + seconds), ...speed.marks.map(([at]) => at), 1e-9);
  const most = 1.12 * Math.max(...valid.map(perSecond)), left = 16 + 7 * Math.max(...rateTicks(most).map((tick) => rateLabel(tick).length), 2);
  const x = (seconds) => left + seconds / end * (width - left - right), y = (rate) => bottom - Math.min(rate / most, 1) * (bottom - top);
  const say = (block) => `${many(block[2], speed.unit, unitName(speed.unit))} in ${timeText(block[1])}: ${digits(perSecond(block))} per second, ${block[3] ? "with the changes" : "as written"}`;
  const line = (blocks, colour) => blocks.length ? draw("path", { d: blocks.map((block, at) => `${at ? "L" : "M"}${x(middle(block)).toFixed(1)} ${y(perSecond(block)).toFixed(1)}`).join(""), fill: "none", stroke: colour, "stroke-width": 2, "stroke-linejoin": "round" }) : null;
  const parts = [...axes(x, y, end, most, { left, right, width, bottom, top })];
  const levels = [[speed.plain, "var(--bar-before)", "as written", speed.words[0]], [speed.changed, "var(--bar-after)", "with the changes", speed.words[1]]].filter(([period]) => period);
  for (const [period, colour] of levels) parts.push(draw("path", { d: `M${left} ${y(1 / period)}H${width - right}`, stroke: colour, "stroke-dasharray": "5 4" }));
  let last = -Infinity; // of the badges, which would hide each other
  for (const [number, [at, name]] of speed.marks.entries()) {
    parts.push(draw("path", { d: `M${x(at)} ${top - 4}V${bottom}`, stroke: "var(--mark)", "stroke-width": 1.5 }, draw("title", null, `${number + 1}. ${name}`)));
    if (x(at) - last >= 20) parts.push(...badge(last = x(at), number + 1));
  }
  parts.push(line(valid.filter((block) => !block[3] && block[0] < since), "var(--bar-before)"), line(valid.filter((block) => block[3]), "var(--bar-after)"));
  for (const block of speed.blocks) {
    if (block[4]) parts.push(cross(x(middle(block)), y(perSecond(block)), "var(--soft)", `${say(block)}; disturbed, does not count`));
    else if (!block[3]) parts.push(draw("circle", { cx: x(middle(block)), cy: y(perSecond(block)), r: 3.5, fill: "var(--bar-before)", stroke: "var(--card)" }, draw("title", null, say(block))));
    else parts.push(draw("circle", { cx: x(middle(block)), cy: y(perSecond(block)), r: 5, fill: "transparent" }, draw("title", null, say(block))));
  }
  const told = levels.map(([, , name, words]) => `${name} ${words}`).join(", ");
  return draw("svg.chart", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${unitName(speed.unit)} per second over time: ${told}` }, parts);
}

const rateTicks = (most) => ticks(0, most).filter((_, at, all) => all.length < 6 || at % 2 === 0);
const rateLabel = (tick) => tick >= 100 ? numberText(Math.round(tick)) : String(Number(tick.toPrecision(3)));

function* axes(x, y, end, most, box) {
  for (const tick of ticks(0, end)) yield* [draw("path.axis", { d: `M${x(tick)} ${box.top}V${box.bottom}` }),
    draw("text", { x: Math.min(x(tick), box.width - 2), y: box.bottom + 16, "text-anchor": x(tick) + 26 > box.width ? "end" : "middle" }, timeText(tick))];
  for (const tick of rateTicks(most)) yield* [draw("path.axis", { d: `M${box.left} ${y(tick)}H${box.width - box.right}` }),
    draw("text", { x: box.left - 6, y: y(tick) + 4, "text-anchor": "end" }, rateLabel(tick))];
}

const badge = (at, number) => [draw("circle", { cx: at, cy: 13, r: 9, fill: "var(--mark)" }), draw("text.number", { x: at, y: 17, "text-anchor": "middle" }, String(number))];
