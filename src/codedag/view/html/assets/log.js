// Migration log: what was replaced, what was not, and why.

PAGES.push({ id: "log", title: "Migration log", show(page) {
  const report = DATA.report;
  if (!report) return page.append(empty(onlyRecorded() ? "Nothing was migrated" : "What was migrated is not known", missing("report")));
  const proof = report.verdict;
  const saved = (one) => one.seconds !== null && one.baseline_seconds !== null ? one.baseline_seconds - one.seconds : null;
  const accounts = report.changes.some((one) => one.saved_seconds !== null && one.saved_seconds !== undefined);
  page.append(el("div.grid", null, accounts ? card("w12", "Account of each change", accountTable(report), el("p.soft.small", null, "Saved: seconds that its calls took less than as written. Spent: keys, misses, guards, copies and checks, also where they did not help. The sum is what it brought.")) : null,
    card("w12", "Replaced", report.changes.length ? table([{ name: "where" }, { name: "what" }, { name: "kind" }, { name: "class", title: "exact: bit-equal" }, { name: "as written", n: true }, { name: "now", n: true }, ...(accounts ? [] : [{ name: "saved", n: true }]), { name: "gain", n: true }, { name: "calls", n: true, title: "calls that ran as the variant; the checked ones ran both ways" }, { name: "checked", n: true }, { name: "why" }],
      report.changes.map((one) => row([placeName(one.where), el("div", { style: "min-width:12em" }, one.what), one.kind, el(one.equivalence === "exact" ? "span.chip.good" : "span.chip.warn", null, one.equivalence || "not said"), num(timeText(one.baseline_seconds)), num(timeText(one.seconds)), ...(accounts ? [] : [num(timeText(saved(one)))]),
        num(one.gain_low === null ? "–" : `${timesText(one.gain_low)} – ${timesText(one.gain_high)}`, "the middle half of the measured ratios"), num(one.calls ? numberText(one.calls) : "–"), num(one.checked ? numberText(one.checked) : "–"), one.reason])))
      : el("p", null, "Nothing was replaced.")),
    card("w12", "Left as it is", report.declined.length ? table([{ name: "where" }, { name: "what" }, { name: "why" }, { name: "time at stake", n: true }],
      report.declined.map((one) => row([placeName(one.where), one.what, one.reason, num(timeText(one.seconds))]))) : el("p", null, "Nothing was declined.")),
    card("w12", "Difference", el("p", null, proof.checked ? `${numberText(proof.checked)} calls ran as written and replaced, side by side: ${proof.mismatches ? `${proof.mismatches} differed, and their change was taken back` : proof.identical ? "all results were bit-equal" : "all results were within what was allowed"}.` : proof.how),
      proof.unverified ? el("p.notice.bad", null, `${many(proof.unverified, "result")} had been used unchecked before the first difference was found.`) : "",
      proof.checked ? el("p.soft", null, proof.how) : "")));
} });
