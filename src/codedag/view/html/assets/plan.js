// Plan: every decision with its measured costs and its runner-up, and what another choice would bring, simulated here.

const WHATIF = { choice: new Map(), off: new Set(), search: "", all: false, most: 150 };

function costOf(id, pu, variant) { return (COSTS.get(id) || []).find((one) => one.pu === pu && one.variant === variant && one.status === "ok"); }

function whatIfChoice() {
  const choice = new Map(WHATIF.choice);
  const off = [...WHATIF.off].map((at) => DATA.plan.moves[at]);
  for (const id of off.flatMap((move) => move.ops)) {
    const below = stackOf(id).filter((move) => !off.includes(move)).pop(), cost = costOf(id, "cpu", "original");
    if (choice.has(id)) continue;
    if (below && below.ops.length === 1 && below.seconds) choice.set(id, { pu: "cpu", variant: below.variant, seconds: below.seconds });
    else if (cost) choice.set(id, { pu: "cpu", variant: "original", seconds: cost.seconds });
  }
  return choice;
}

function planCards(holder, instance) {
  const plan = DATA.plan, gap = plan.lower_bound_seconds > 0 ? plan.makespan_seconds / plan.lower_bound_seconds - 1 : 0;
  const replayed = instance && simulate(instance, null), choice = whatIfChoice(), changed = choice.size;
  const what = instance && changed ? simulate(instance, choice) : null;
  const other = what && !what.error ? what.makespan - replayed.makespan : 0;
  holder.replaceChildren(
    card("w4", "The plan", el("div.big", null, timeText(plan.makespan_seconds)), el("p", null, `simulated, against ${timeText(plan.baseline_seconds)} as written`, plan.makespan_seconds > 0 ? ` (${timesText(plan.baseline_seconds / plan.makespan_seconds)})` : ""),
      el("p.soft.small", null, "Sums over the recorded calls.", (plan.simulated || []).length ? ` ${plan.simulated.join(", ")}: simulated, not measured here.` : "", plan.truncated ? " The search was cut short by its budget." : "")),
    card("w4", "How much better could any plan be?", el("div.big", null, gap <= 1e-9 ? "not at all" : gap < 5e-4 ? "hardly" : `at most ${shareText(gap / (1 + gap))}`), el("p", null, `no plan with these variants can take less than ${timeText(plan.lower_bound_seconds)}`),
      replayed && !replayed.error && Math.abs(replayed.makespan - plan.makespan_seconds) > 1e-6 * plan.makespan_seconds + 1e-12 ? el("p.notice", null, `Replayed in this page the plan takes ${timeText(replayed.makespan)} when everything starts as early as its order lets it; plan.json states other times, as it does where it waits for memory.`) : null),
    card("w4", "What if", el("div.big", { id: "whatif", "data-seconds": what && !what.error ? what.makespan : replayed ? replayed.makespan : "" }, !instance ? "not here" : what ? (what.error ? "impossible" : timeText(what.makespan)) : timeText(replayed.makespan)),
      !instance ? el("p", null, whyNoWhatIf()) : what && what.error ? el("p", null, what.error) : what ? el("p", null, el(`span.delta.${other > 0 ? "up" : "down"}`, null, `${other > 0 ? "+" : "−"}${timeText(Math.abs(other))} (${other > 0 ? "+" : "−"}${shareText(Math.abs(other) / (replayed.makespan || 1))})`), ` with ${many(WHATIF.choice.size + WHATIF.off.size, "other choice")}`)
        : el("p", null, "Choose another unit or variant below, or switch a change off, and see what the plan would take."),
      changed ? el("button", { type: "button", onclick: () => { WHATIF.choice.clear(); WHATIF.off.clear(); show(true); } }, "back to the plan") : null));
}

const whyNoWhatIf = () => !DATA.edges ? `This run has more operations than the page re-evaluates; codedag explain ${DATA.commands.run} OP answers for one.` : "The plan has no schedule that could be replayed.";

// A plan that was made from costs states no times for its changes: they are sums over its operations.
function moveSeconds(move, planned) {
  if (!move.ops.length) return null;
  const change = move.ops.length ? null : changeOf(move), source = change || move;
  const stated = planned ? source.seconds : source.baseline_seconds;
  if (stated !== null && stated !== undefined) return stated;
  const costs = move.ops.map((id) => planned ? PLACED.get(id) && costOf(id, PLACED.get(id).pu, PLACED.get(id).variant) : costOf(id, "cpu", "original"));
  return costs.every(Boolean) ? costs.reduce((sum, one) => sum + one.seconds, 0) : null;
}

// The report's account of a move; of one that an earlier run had proven, the operations were never recorded as written.
const changeOf = (move) => ((DATA.report || {}).changes || []).find((one) => one.where === `${move.file}:${move.line}${move.end_line > move.line ? `-${move.end_line}` : ""}`);

// The head of the page for a run that began with known changes: what they save, since there is nothing to plan with.
function knownCard() {
  const unseen = DATA.plan.moves.filter((move) => !move.ops.length && changeOf(move));
  if (!unseen.length || DATA.plan.placement.some(([, pu, variant]) => !asWritten(pu, variant))) return null;
  const saved = unseen.reduce((sum, move) => { const one = changeOf(move); return sum + ((one.baseline_seconds ?? 0) - (one.seconds ?? 0)); }, 0);
  return card("w12", "Changes that an earlier run had proven", el("div.big", null, timeText(saved)), el("p", null, `saved by ${many(unseen.length, "change")} that ${unseen.length === 1 ? "was" : "were"} made from the start, by the calls that were compared side by side. `,
    code(`codedag run --fresh ${DATA.commands.program}`), " observes everything anew and fills this page and the graph."));
}

function moveGain(move) {
  if (measuredInUse(move)) return `${timesText(move.gain_low)} – ${timesText(move.gain_high)}`;
  const before = moveSeconds(move, false), after = moveSeconds(move, true);
  return before && after ? timesText(before / after) : "–";
}

// Changes may lie on top of each other: what another library computes is kept, too.
const isCovered = (move) => move.ops.length > 0 && move.ops.every((id) => movesOf().get(id) !== move);
function onTop(move) {
  const below = DATA.plan.moves.slice(0, DATA.plan.moves.indexOf(move)).filter((other) => other.ops.some((id) => move.ops.includes(id)));
  return below.length ? `, on top of ${below.map((other) => other.variant || other.kind).join(", ")}` : "";
}

const secondsOrNone = (seconds) => seconds === null ? "–" : timeText(seconds);

function movesCard(instance, refresh) {
  const moves = DATA.plan.moves;
  const other = DATA.plan.placement.filter(([, pu, variant]) => !asWritten(pu, variant)).length;
  if (!moves.length) return card("w12", "Changes", el("p", null, other ? `The plan rewrites no lines; ${many(other, "operation runs", "operations run")} in another way than as written, as the decisions below say.` : "The plan changes no code: every operation runs as written."));
  return card("w12", "Changes to the program", table([{ name: "where" }, { name: "what" }, { name: "variant" }, { name: "class" }, { name: "as written", n: true }, { name: "planned", n: true }, { name: "gain", n: true }, { name: "what if" }], moves.map((move, at) => row([
    placeName(`${move.file || ""}:${move.line || ""}${move.end_line && move.end_line !== move.line ? `–${move.end_line}` : ""}`), `${move.kind}: ${(move.chain || []).map((name) => name.split(".").pop()).join(" › ") || many(move.ops.length, "operation")}${onTop(move)}`,
    move.variant || "", move.equivalence || "", num(secondsOrNone(moveSeconds(move, false))), num(secondsOrNone(moveSeconds(move, true))), num(moveGain(move)),
    el("label", { title: isCovered(move) ? "another change lies on top of it" : move.ops.length ? "" : move.kind === "widen" ? "it changes in what order items are fetched, not what an operation takes" : "its operations were not recorded in this run" }, el("input", { type: "checkbox", checked: !WHATIF.off.has(at), disabled: !instance || !move.ops.length || isCovered(move), onchange: (event) => { if (event.target.checked) WHATIF.off.delete(at); else WHATIF.off.add(at); refresh(); } }), " apply")]))));
}

function decisionsCard(instance, refresh) {
  const decided = new Map((DATA.plan.decisions || []).map((one) => [one.op, one])), incoming = new Map();
  for (const copy of DATA.plan.transfers || []) incoming.set(copy.op, (incoming.get(copy.op) || 0) + copy.end - copy.start);
  const holder = el("div");
  const list = () => {
    const words = WHATIF.search.trim().toLowerCase();
    const ids = DATA.plan.placement.map(([op]) => op).filter((id) => { const op = BY_ID.get(id); return op && (!words || matches(op, words)) && (WHATIF.all || interesting(id, decided.get(id))); });
    ids.sort((a, b) => BY_ID.get(b).own - BY_ID.get(a).own);
    holder.replaceChildren(ids.length ? table([{ name: "operation" }, { name: "where" }, { name: "runs as" }, { name: "measured", n: true, title: "cost of the choice, with its interval" }, { name: "copies", n: true, title: "time to copy its result to other units" }, { name: "runner-up" }, { name: "its cost", n: true }, { name: "why" }, { name: "what if" }],
      ids.slice(0, WHATIF.most).map((id) => decisionRow(id, decided.get(id), incoming.get(id), instance, refresh)))
      : el("p.empty", null, words ? "Nothing matches." : "No operation had a choice: for all of them only the program as written was measured."),
    ids.length > WHATIF.most ? el("button", { type: "button", onclick: () => { WHATIF.most *= 4; list(); } }, `show more (${numberText(ids.length - WHATIF.most)} left)`) : "");
  };
  list();
  return card("w12", "Decisions", el("div.tools", null, el("input", { type: "search", placeholder: "search names, files, lines", "aria-label": "search", value: WHATIF.search, oninput: (event) => { WHATIF.search = event.target.value; list(); } }),
    el("label", null, el("input", { type: "checkbox", checked: WHATIF.all, onchange: (event) => { WHATIF.all = event.target.checked; list(); } }), " also operations without a choice")), holder);
}

function interesting(id, decision) {
  const placed = PLACED.get(id);
  return (COSTS.get(id) || []).length > 1 || (decision && decision.runner_up) || (placed && !asWritten(placed.pu, placed.variant));
}

function decisionRow(id, decision, copies, instance, refresh) {
  const op = BY_ID.get(id), placed = PLACED.get(id), cost = costOf(id, placed.pu, placed.variant);
  const second = decision && decision.runner_up ? decision.runner_up : "", slash = second.indexOf("/");
  const after = second && costOf(id, second.slice(0, slash), second.slice(slash + 1));
  const inMove = movesOf().has(id);
  return row([opName(op.short, op.name), opLink(op, where(op)), runsAs(placed.pu, placed.variant),
    num(cost ? timeText(cost.seconds) : inMove ? "see the change" : "–", cost ? interval(cost) : ""), num(copies ? timeText(copies) : "none"), second ? runsAs(second.slice(0, slash), second.slice(slash + 1)) : el("span.soft", null, "none"), num(after ? timeText(after.seconds) : "–", after ? interval(after) : ""),
    decision ? decision.why : "", inMove ? el("span.soft", null, "with its change, above") : whatIfSelect(id, placed, instance, refresh)]);
}

function whatIfSelect(id, placed, instance, refresh) {
  const options = (COSTS.get(id) || []).filter((one) => one.status === "ok" && instance && instance.pus.has(one.pu) && !(one.pu === placed.pu && one.variant === placed.variant));
  if (!options.length || !instance) return el("span.soft", null, "no other");
  const now = WHATIF.choice.get(id);
  return el("select", { "aria-label": `what if op ${id} ran as`, "data-op": id, onchange: (event) => {
    if (event.target.value === "") WHATIF.choice.delete(id); else { const one = options[Number(event.target.value)]; WHATIF.choice.set(id, { pu: one.pu, variant: one.variant, seconds: one.seconds }); }
    refresh();
  } }, el("option", { value: "" }, "as planned"), options.map((one, at) => el("option", { value: at, selected: Boolean(now && now.pu === one.pu && now.variant === one.variant) }, `${runsAs(one.pu, one.variant)}: ${timeText(one.seconds)}`)));
}

function strategiesCard() {
  const plan = DATA.plan, tried = plan.strategies || [], peaks = plan.peaks || [];
  if (!tried.length && !peaks.length) return null;
  const chosen = tried.filter((one) => one.name === plan.strategy), others = tried.filter((one) => one.name !== plan.strategy);
  const same = tried.every((one) => Math.abs(one.makespan_seconds - plan.makespan_seconds) <= 1e-3 * plan.makespan_seconds);
  const few = same ? chosen : [...chosen, ...others.slice(0, 9)];
  return card("w12", "How it was found", same && tried.length > 1 ? el("p", null, `All ${tried.length} strategies found plans of this length; what leaves the program as it is wins ties.`) : null, few.length ? bars(few.map((one) => ({ label: one.name + (one.name === plan.strategy ? " (chosen)" : ""), value: one.makespan_seconds, words: timeText(one.makespan_seconds), colour: one.name === plan.strategy ? "var(--bar-after)" : "var(--bar-before)" }))) : null,
    plan.baseline ? el("p.soft.small", null, `Compared with: ${plan.baseline}.`) : null,
    peaks.length ? el("p", null, "Most bytes alive at once: ", peaks.map((one) => `${puLabel(one.pu)} ${sizeText(one.nbytes)} of ${sizeText(one.memory_nbytes)}`).join(", "), ".") : null);
}

PAGES.push({ id: "plan", title: "Plan", show(page) {
  if (!DATA.plan || !DATA.ops) return page.append(empty("No plan", missing(DATA.plan ? "graph" : "plan")));
  const instance = planInstance(), head = el("div.grid"), known = knownCard(), refresh = () => known ? head.replaceChildren(known) : planCards(head, instance);
  refresh();
  page.append(head, el("div.grid", { style: "margin-top:14px" }, movesCard(instance, refresh), decisionsCard(instance, refresh), strategiesCard()));
} });
