// Summary: what came out, whether it is the same, on what machine, and why, in one screen.

// Whether the program was only looked at; a run without a report that was more than that may have changed anything.
const onlyRecorded = () => Boolean(DATA.run && DATA.run.command !== "run" && !DATA.files.report.why);

const TONES = { faster: "good", slower: "bad", same: "", unknown: "warn", unchanged: "" };

// The verdict of a run with a claim: the figure, the claim in words and what it is of, and whether results are the same.
function claimCard(report, width) {
  const found = DATA.verdict, proof = report.verdict, running = DATA.run && DATA.run.status === "running", tone = TONES[found.tone];
  const [same, kind] = !proof.checked ? ["nothing to compare", ""] : proof.identical ? ["results identical", "good"] : proof.mismatches ? [`${proof.mismatches} results differed`, "bad"] : ["results within tolerance", "warn"];
  return card(width, running ? "Gain so far" : "Gain", el(`div.big${tone ? `.${tone}` : ""}`, null, found.figure.replace(/x$/, "×")), found.tone === "unchanged" ? null : el("p", null, `${found.sentence[0].toUpperCase()}${found.sentence.slice(1)}.`),
    found.detail ? el("p.soft.small", null, `${found.detail.startsWith("codedag") ? "" : found.detail[0].toUpperCase()}${found.detail.slice(found.detail.startsWith("codedag") ? 0 : 1)}.`) : null,
    el("p", null, el(`span.chip${kind ? `.${kind}` : ""}`, null, same), proof.checked ? ` ${many(proof.checked, "call")} compared` : ""),
    DATA.left ? el("p", null, `${DATA.left[0].toUpperCase()}${DATA.left.slice(1)}.`) : null);
}

function accountCard(report) {
  if (!report.changes.length) return null;
  return card("w12", "Changes", accountTable(report), el("p", null), el("a", { href: "#log" }, "all about them: the migration log"));
}

// Seconds that each change saved and spent, by its account; where it has none, by its calls before and after.
function accountTable(report) {
  const known = (values) => values.some((value) => value !== null) ? timeText(values.reduce((sum, value) => sum + (value || 0), 0)) : "–";
  const saved = report.changes.map((one, at) => one.saved_seconds ?? DATA.saved[at]), spent = report.changes.map((one) => one.spent_seconds ?? null);
  const rows = report.changes.map((one, at) => row([placeName(one.where), one.what, num(timeText(saved[at])), num(timeText(spent[at])), num(el("b", null, timeText(DATA.saved[at]))), stateChip(one)]));
  return table([{ name: "where" }, { name: "what" }, { name: "saved", n: true, title: "seconds that its calls took less" }, { name: "spent", n: true, title: "keys, misses, guards, copies and checks, also where they did not help" }, { name: "sum", n: true }, { name: "state" }],
    rows.length > 1 ? [...rows, row([el("b", null, "all changes"), "", num(known(saved)), num(known(spent)), num(el("b", null, known(DATA.saved))), ""])] : rows);
}

function stateChip(one) {
  if (!one.state) return "–";
  const tone = { "in-use": ".good", "taken-back": ".warn", declined: ".warn" }[one.state] || "";
  return el(`span.chip${tone}`, { title: one.reason }, one.state.replace(/-/g, " "));
}

function verdictCard(report) {
  if (!report && !onlyRecorded()) return card("w4", "Gain", el("div.big", null, "not known"),
    body.dataset.live && DATA.run && DATA.run.status === "running" ? el("p", null, "The program still runs; this is told when it has ended.") : missing("report"));
  if (!report) return card("w4", "Gain", el("div.big", null, "not run"), el("p", null, "This run only recorded the program; nothing was changed."),
    el("p", null, code(`codedag run ${DATA.commands.program}`), " makes it faster and says by how much."));
  if (!report.changes.length) return card("w4", "Gain", el("div.big", null, "nothing changed"),
    el("p", null, report.declined.length ? "What was considered, and why it was left as it is, is on the page “Migration log”."
      : "No operation with a proven faster variant was seen."));
  if (report.void) return card("w4", "Gain", el("div.big", null, "cannot be told"), el("p", null, `${report.void}. `, code("codedag compare"), " measures it."));
  const steady = report.steady_gain === null || report.steady_gain === undefined ? null
    : el("p", null, `${timesText(report.steady_gain)} in the steady state, between ${timesText(report.steady_low)} and ${timesText(report.steady_high)}: once the changes are made, without observing and checking`);
  if (report.gain_low <= 1 && report.gain_high >= 1) return card("w4", "Gain", el("div.big", null, timesText(report.gain)),
    el("p", null, `no clear difference: between ${timesText(report.gain_low)} and ${timesText(report.gain_high)} over the whole run`), steady);
  const faster = report.gain >= 1;
  return card("w4", "Gain", el(`div.big.${faster ? "good" : "bad"}`, null, timesText(report.gain)),
    el("p", null, `${faster ? "faster" : "slower"} over the whole run, between ${timesText(report.gain_low)} and ${timesText(report.gain_high)}`),
    steady, el("p.soft.small", null, "An estimate: the time of the calls as written, measured side by side with the new ones, is set against the time of this run. ",
      code("codedag compare"), " measures both programs."));
}

function equalityCard(report, width = "w4") {
  if (!report) return card(width, "Are the results the same?", ...(onlyRecorded() ? [el("p", null, "Nothing was changed, so there is nothing to compare.")]
    : [el("div.big", null, "not known"), el("p", null, `What was changed, and what was checked, is written when the program has ended. ${DATA.files.report.why ? "Here it cannot be read." : "Here that is not there."}`)]));
  const proof = report.verdict;
  if (!proof.checked) return card(width, "Are the results the same?", el("div.big", null, "unchanged"), el("p", null, proof.how));
  return card(width, "Are the results the same?",
    el(`div.big.${proof.identical ? "good" : proof.mismatches ? "bad" : "warn"}`, null, proof.identical ? "identical" : proof.mismatches ? `${proof.mismatches} differed` : "within tolerance"),
    el("p", null, `${numberText(proof.checked - proof.mismatches)} of ${numberText(proof.checked)} checked calls ${proof.identical || proof.mismatches ? "bit-equal" : "within what was allowed"}`),
    proof.unverified ? el("p.notice.bad", null, `${many(proof.unverified, "result")} had been used unchecked before the first difference was found.`) : null,
    report.workers ? el("p.soft.small", null, `Checks of ${many(report.workers, "worker process", "worker processes")} are among them.`) : null,
    el("p.soft.small", null, proof.how));
}

function machineCard(width = "w4") {
  const machine = DATA.machine, run = DATA.run || { versions: {} };
  const units = machine ? machine.pus.map((pu) => el("li", { title: (pu.capability || []).join(", ") }, el("b", null, puLabel(pu.name)),
    ` ${[pu.name === "cpu" ? (pu.capability || [])[0] : pu.runtime, pu.threads ? many(pu.threads, "thread") : "", sizeText(pu.memory_nbytes)].filter(Boolean).join(", ")}`)) : null;
  const absent = ((machine || {}).absent || []).map((one) => el("li", { title: one.reason }, `${one.name}: ${one.reason}`));
  return card(width, "Machine", units ? el("ul", null, units) : missing("machine"),
    absent.length ? el("details", null, el("summary.soft", null, `${many(absent.length, "other unit")} looked for and not found`), el("ul.small", null, absent)) : null,
    facts([["system", run.versions.platform || "not recorded"], ["Python", run.versions.python || "not recorded"], ["CodeDAG", run.versions.codedag || DATA.codedag]]));
}

function whySentence() {
  const hot = OPS.filter(works).sort((a, b) => b.own - a.own).slice(0, 3);
  const total = DATA.whole.seconds || 1;
  const named = hot.map((op) => `${op.short} at ${where(op)} (${shareText(op.own / total)})`).join(", ");
  const part = hot.reduce((sum, op) => sum + op.own, 0) / total, verb = part < 0.2 ? "no single one took much: the longest are" : "most went to";
  const words = [`Of ${timeText(DATA.whole.seconds)} in ${many(DATA.whole.operations, "recorded operation")}, ${verb} ${named}. `];
  const change = DATA.report && [...DATA.report.changes].sort((a, b) => (b.baseline_seconds - b.seconds) - (a.baseline_seconds - a.seconds))[0];
  if (change) words.push(`The change that saved most is at ${fileName(change.where)}: ${change.what}, ${change.reason}.`);
  else if (DATA.report && DATA.report.declined.length) {
    const first = DATA.report.declined[0];
    words.push(`${first.what} at ${fileName(first.where)} was left as it is: ${first.reason}.`);
  }
  if (DATA.covered) words.push(`${words[words.length - 1].endsWith(" ") ? "" : " "}${DATA.covered[0].toUpperCase()}${DATA.covered.slice(1)}.`);
  return words.join("");
}

function timeBars(report) {
  const lines = [];
  if (report && report.baseline_seconds !== null && report.optimised_seconds !== null) {
    const after = report.optimised_seconds;
    lines.push({ label: "as written (estimated)", value: report.baseline_seconds, low: report.gain_low * after, high: report.gain_high * after,
      words: timeText(report.baseline_seconds), colour: "var(--bar-before)", title: "the line at its end is the interval" });
    lines.push({ label: "this run (measured)", value: after, words: timeText(after), colour: "var(--bar-after)" });
  }
  return lines;
}

function planBars(plan) {
  return [
    { label: "as written", value: plan.baseline_seconds, words: timeText(plan.baseline_seconds), colour: "var(--bar-before)" },
    { label: "planned (simulated)", value: plan.makespan_seconds, words: timeText(plan.makespan_seconds), colour: "var(--bar-after)" },
    { label: "no plan can be below", value: plan.lower_bound_seconds, words: timeText(plan.lower_bound_seconds), colour: "var(--line)" },
  ];
}

function notices() {
  const found = [], run = DATA.run;
  if (run && run.status === "running" && !body.dataset.live)
    found.push(el("p.notice", null, "The run did not get to its end: the program still runs, was killed, or the run could not be written. Shown is what was kept until then."));
  if (run && run.status === "failed") found.push(el("p.notice", null, `The program itself ended with exit code ${run.exit_code}. What it did until then is shown.`));
  if (run && run.status === "error") found.push(el("p.notice.bad", null, "CodeDAG failed in this run; see the notes on the page “Method”."));
  const unseen = ((DATA.plan || {}).moves || []).filter((move) => !move.ops.length && move.kind !== "widen").length;
  if (unseen) found.push(el("p.notice", null, `${many(unseen, "change was", "changes were")} made from the start, as an earlier run had proven: what was replaced there was never recorded as written, and is in the log but not in the graph.`));
  if (DATA.recovered) found.push(el("p.notice", null, "There is no graph.json: the graph was put together from the records that the processes had written."));
  for (const file of Object.values(DATA.files)) if (file.why) found.push(el("p.notice.bad", null, `${file.name} cannot be read: ${file.why}`));
  return found;
}

function absentFiles() {
  const absent = Object.entries(DATA.files).filter(([kind, file]) => file.nbytes === null && kind !== "run");
  if (!absent.length) return null;
  const use = { graph: "the graph and the operations", costs: "measured costs and gains per operation", machine: "processing units and links",
    plan: "the plan and its timeline", report: "the verdict and the migration log", events: "the measured timeline and memory over time" };
  return card("w12", "Not in this run", el("ul", null, absent.map(([kind, file]) => el("li", null, code(file.name), ` (${use[kind]}): `, code(file.made_by), " makes it"))));
}

PAGES.push({ id: "summary", title: "Summary", show(page) {
  const report = DATA.report, judged = report && (report.claim || report.heat), isTraced = onlyRecorded() && !report && DATA.ops && OPS.length;
  page.append(...notices(), el("div.grid", null, ...(judged ? judgedCards(report) : isTraced ? tracedCards() : [verdictCard(report), equalityCard(report), machineCard()]),
    ...recordedCards(report), ...(judged ? [equalityCard(report, "w6"), machineCard("w6")] : isTraced ? [machineCard("w12")] : []), absentFiles()));
} });

// What the program did as a whole: its gain, its speed, what is slow in it, and what the changes brought.
function judgedCards(report) {
  const speed = DATA.speed ? speedCard(DATA.speed, "w8") : null;
  const price = report.changes.length ? priceCard(speed ? "w12" : "w4") : null;
  return [claimCard(report, speed ? "w4" : price ? "w8" : "w12"), speed, speed ? null : price, placesCard("w12"), accountCard(report), loaderCard("w12"), poolsCard("w12"), speed ? price : null, ...(DATA.heat ? heatCards(DATA.heat) : [])];
}

// The first screen of a trace: where its time and bytes went, what could be saved by hand, and what makes it faster.
function tracedCards() {
  const moved = OPS.filter(works).reduce((sum, op) => sum + op.out, 0), hot = OPS.filter(works).sort((a, b) => b.own - a.own)[0];
  return [card("w4", "Recorded", el("div.big", null, timeText(DATA.whole.seconds)), el("p", null, `in ${many(DATA.whole.operations, "operation")} that made ${sizeText(moved)} of results. Nothing was changed, so there is nothing to compare.`),
    hot ? el("p", null, "Hottest: ", opLink(hot), ` (${shareText(hot.own / (DATA.whole.seconds || 1))}), `, placeName(`${hot.file}:${hot.line}`), ".") : null,
    el("p", null, code(`codedag run ${DATA.commands.program}`), " makes it faster and says by how much.")),
    placesCard("w8") || card("w8", "What you could do", el("p", null, "Nothing that can be saved by hand was found in the graph: no unused result, no call made twice, no constant built again."))];
}

// What its recorded operations did; an estimate of the gain from these is shown only where none was measured.
function recordedCards(report) {
  const lines = report && report.claim ? [] : timeBars(report), plan = DATA.whole && DATA.whole.operations ? DATA.plan : null;
  const found = [lines.length ? card(plan ? "w6" : "w12", "Time of the program", bars(lines)) : null,
    plan ? card(lines.length ? "w6" : "w12", "Time of the recorded operations", bars(planBars(plan)),
      el("p.soft.small", null, "Sums over the calls that were recorded. The plan's time is simulated from measured costs; the page “Plan” takes it apart.")) : null];
  if (DATA.ops && OPS.length) return [...found, card("w12", "Why", el("p", null, whySentence())), hottestCard()];
  return [...found, card("w12", "Operations", DATA.ops ? el("p", null, ...noOperations()) : missing("graph"))];
}

function noOperations() {
  if (DATA.heat) return ["No operation was recorded: nothing was opened that a change could make faster. ", code(`codedag trace ${DATA.commands.program}`), " records all of them."];
  return ["No operation on data was recorded. Either the program moves none, or all of it happens inside packages: codedag trace --drill PACKAGE looks into one."];
}

function hottestCard() {
  const total = DATA.whole.seconds || 1;
  const hot = OPS.filter(works).sort((a, b) => b.own - a.own).slice(0, 10);
  return card("w12", "Hottest operations", bars(hot.map((op) => ({ label: el("span", null, opLink(op)), title: `${op.name} ${op.file}:${op.line}`, value: op.own,
    words: `${timeText(op.own)} · ${shareText(op.own / total)} · ${many(op.calls, "call")}`, colour: "var(--heat3)" }))),
    el("p", null), el("a", { href: "#operations" }, `all ${numberText(DATA.whole.operations)} operations`), " · ", el("a", { href: "#graph" }, "the graph"),
    el("span.soft.small", null, ` · shares of the own time of all recorded operations (${timeText(DATA.whole.seconds)})`));
}
