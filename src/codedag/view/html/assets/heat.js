// What is slow: the process's CPU time by code, its hot functions, and the user's hot lines, as a sampler saw them.

const HEAT_COLOURS = { own: "var(--heat4)", other: "var(--plain)", codedag: "var(--mark)" };
const FUNCTIONS_SHOWN = 12, PLACES_SHOWN = 8;

function heatCards(heat) {
  if (!heat.functions.length && !heat.lines.length) return [card("w12", "What is slow", el("p", null, `The sampler saw no function in ${timeText(heat.sampled)}: the program was too short or only waited.`))];
  const both = heat.functions.length && heat.lines.length;
  return [heat.functions.length ? functionsCard(heat, both ? "w7" : "w12") : null, heat.lines.length ? linesCard(heat, both ? "w5" : "w12") : null];
}

function functionsCard(heat, width) {
  const shown = heat.functions.slice(0, FUNCTIONS_SHOWN), rest = heat.functions.slice(FUNCTIONS_SHOWN);
  return card(width, "Hot functions", el("p", null, `${timeText(heat.whole)} of CPU time in the whole process`, ` in ${timeText(heat.sampled)}`, heat.waiting ? `; its threads waited for ${timeText(heat.waiting)} in all` : "", ".", turnWords(heat.turn)),
    partsBar(heat), functionBars(heat, shown),
    rest.length ? el("details", null, el("summary.soft", null, many(rest.length, "more function")), functionBars(heat, rest)) : null,
    el("p.soft.small", null, "Bars: share of the process's CPU time; red: in the function itself, pale: in what it calls, so shares add up to more than 100 %. From samples",
      heat.biased ? "; some code could not be sampled as often as other code, so that its share may be too low." : "."));
}

function turnWords(turn) {
  if (!turn) return "";
  const name = turn.name && turn.name !== "<module>" ? `the loop of ${turn.name} at ` : "the loop at ";
  return ` Its turn is ${name}${fileName(turn.file)}:${turn.line}: ${timeText(turn.period_seconds)} each, at least ${many(turn.turns, "time")}.`;
}

function partsBar(heat) {
  const packages = heat.parts.filter((part) => part.kind === "package");
  const colour = (part) => HEAT_COLOURS[part.kind] || `var(--v${packages.indexOf(part) % 8 + 1})`;
  return [el("div.parts", { role: "img", "aria-label": heat.parts.map((part) => `${part.name} ${shareText(part.seconds / heat.whole)}`).join(", ") },
    heat.parts.map((part) => el("i", { style: `width:${100 * part.seconds / heat.whole}%;background:${colour(part)}`, title: `${part.name}: ${timeText(part.seconds)}` }))),
    el("div.legend", null, heat.parts.map((part) => el("span", null, el("i", { style: `background:${colour(part)}` }), `${part.name} ${shareText(part.seconds / heat.whole)}`)))];
}

function functionBars(heat, functions) {
  return el("div.bars.hot", { role: "list" }, functions.map((one) => {
    const at = one.line ? `${fileName(one.file)}:${one.line}` : fileName(one.file), part = (seconds) => `${100 * Math.min(seconds / (heat.whole || 1), 1)}%`;
    return [el("span.label", { title: `${one.name}\n${one.file}:${one.line}` }, el("code", null, one.name), " ", el("span.soft.small", null, one.package ? `${one.package} · ` : "", one.line ? placeName(`${one.file}:${one.line}`, at) : at)),
      el("span.bar", { role: "listitem", "aria-label": `${one.name}: ${shareText(one.share)} of CPU time, ${timeText(one.self_seconds)} of it itself` },
        el("i", { style: `width:${part(one.total_seconds)};background:var(--heat2)` }), el("i", { style: `width:${part(one.self_seconds)};background:var(--heat4)` })),
      el("span.value", { title: `${timeText(one.self_seconds)} in itself` }, `${timeText(one.total_seconds)} · ${shareText(one.share)}`)];
  }));
}

// The user's source: every hot line with a bar and its share, the lines around it, and a mark where some are left out.
function linesCard(heat, width) {
  const files = [...new Set(heat.lines.map((line) => line.file))], most = Math.max(...heat.lines.map((line) => line.share), 1e-12);
  return card(width, "Your source", files.map((file) => [el("h3", { title: file }, placeName(`${file}:${heat.lines.find((line) => line.file === file).line}`, fileName(file))),
    el("div.lines", { role: "list" }, heat.lines.filter((line) => line.file === file).map((line, at, all) => [
      at && all[at - 1].line < line.line - 1 ? el("div.gap", { "aria-hidden": "true" }, "⋯") : null,
      el(line.share ? "div" : "div.cold", { role: "listitem", title: `${file}:${line.line}${line.share ? `\n${shareText(line.share)} of CPU time` : ""}` },
        el("span.soft", null, placeName(`${file}:${line.line}`, String(line.line))), el("span.bar", null, line.share ? el("i", { style: `width:${100 * line.share / most}%;background:var(--heat3)` }) : null),
        el("b", null, line.share ? shareText(line.share) : ""), el("code", null, line.text || (line.share ? "–" : "")))])),
    heat.newer.includes(file) ? el("p.soft.small", null, "This file has changed since the run, so its text is not shown.") : null]),
    el("p.soft.small", null, `Share of the process's CPU time (${timeText(heat.whole)}), with all that the line calls.`));
}

// Each hot place of the user's code with what was done there, or the one reason why not, and what somebody could do.
function placesCard(width) {
  const places = DATA.places || [], found = DATA.advised || [], shown = places.slice(0, PLACES_SHOWN), rest = places.slice(PLACES_SHOWN);
  if (!places.length && !found.length) return null;
  const rows = (some) => table([{ name: "where" }, { name: "what takes the time" }, { name: "time", n: true, title: "seconds of the run, of no other place below it; waiting included" }, { name: "of the run", n: true }, { name: "done, or why not" }],
    some.map((one) => row([placeName(one.where), el("span", { title: one.inside.join("\n") }, el("code", null, one.what), one.in_workers ? " in the workers" : ""), num(timeText(one.seconds + one.waiting)), num(el("b", null, shareText(one.share))),
      one.done ? [el("span.chip.good", null, "done"), ` ${one.done}`] : [one.why, one.hint ? el("div", { title: one.hint.sentence }, `you could ${one.hint.words} `, el("span.chip", null, one.hint.evidence)) : null]])));
  return card(width, "What is slow, why, and what you could do", shown.length ? rows(shown) : null, rest.length ? el("details", null, el("summary.soft", null, many(rest.length, "more place")), rows(rest)) : null,
    found.length ? el("ul", null, found.map((words) => el("li", null, words))) : null);
}

// A DataLoader taken apart: its parts in the main process and in the workers, and advice with the figures it rests on.
function loaderCard(width) {
  const found = DATA.loader, shades = ["var(--heat4)", "var(--v2)", "var(--v3)", "var(--v4)", "var(--v5)", "var(--plain)"];
  if (!found) return null;
  const parts = (some) => bars(some.map((part, at) => ({ label: part.name, title: part.words, value: part.seconds, words: `${timeText(part.seconds)} · ${part.words}`, colour: shades[at % shades.length] })));
  return card(width, "DataLoader", el("p", null, `${shareText(found.share)} of the run is in the loader, in the main process:`), parts(found.parts),
    found.worker_parts.length ? [el("p", null, `${many(found.workers, "worker")}, which computed ${found.per_worker.slice(0, 16).map((share) => shareText(share)).join(", ")} of their time:`), parts(found.worker_parts)] : null,
    found.advice.length ? el("ul", null, found.advice.map((one) => el("li", null, `${one.sentence} `, el("span.chip", null, one.evidence)))) : null);
}

// What pools of workers spend on themselves.
function poolsCard(width) {
  const parts = DATA.pools || [];
  return parts.length ? card(width, "Worker pools", el("p", null, "In the main process, of the pools themselves:"), bars(parts.map((part) => ({ label: part.name, value: part.seconds, words: `${timeText(part.seconds)} · ${part.words}`, colour: "var(--v2)" })))) : null;
}

// What CodeDAG itself kept and spent beside the gain.
function priceCard(width) {
  const own = DATA.own;
  if (!own) return null;
  return card(width, "What CodeDAG took", facts([["kept in memory", own.kept_nbytes ? `${sizeText(own.kept_nbytes)} at most` : "nothing"], ["CPU time", timeText(own.cpu_seconds)],
    ["before and after the program", timeText(own.start_seconds)], own.processes ? ["other processes", String(own.processes)] : null]));
}
