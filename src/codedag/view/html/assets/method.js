// Method: how the figures came about, so that they can be repeated and doubted.

PAGES.push({ id: "method", title: "Method", show(page) {
  const run = DATA.run, report = DATA.report, events = DATA.events;
  const intro = (title, ...rest) => card("w6", title, ...rest);
  page.append(el("div.grid", null,
    intro("Command lines", run ? facts([["this run", code(`codedag ${run.command} ${DATA.commands.program}`)], ["in", code(run.cwd)], ["started", run.started],
      ["ended", run.status === "running" ? "not yet, or killed" : `${run.status}, exit code ${run.exit_code}`], ["run directory", code(DATA.path)], ["this page", code(`codedag view ${DATA.commands.run} --html FILE`)]]) : missing("run")),
    intro("Versions", run ? facts(Object.entries(run.versions).map(([name, version]) => [name, version])) : missing("run")),
    intro("How times were measured", el("ul", null,
      el("li", null, "Own time is the time in an operation without the operations inside it, summed over all its calls, by the monotonic clock."),
      el("li", null, run && run.recorder_seconds ? `Recording one operation cost ${timeText(run.recorder_seconds)} here; that is taken out of the times. Operations whose calls are shorter than ${timeText(DATA.floor)} are marked “too fast to say”.`
        : "What recording one operation cost was not measured in this run: the times of very short operations are too long by it."),
      el("li", null, "The interval of a cost as written reaches from its fastest call to its slowest, times its calls."),
      report ? el("li", null, "A gain is the ratio of the time as written to the new time on the same calls, run side by side; its interval is the middle half of those ratios.") : null,
      report && report.verdict.checked ? el("li", null, `Repeats: ${numberText(report.verdict.checked)} checked calls; ${report.verdict.how}.`) : null)),
    intro("Rules of this page", el("ul", null,
      el("li", null, "“Bound by” is what the measured peaks of the machine say where codedag profile has measured them. Elsewhere it is call overhead if one call takes less than 20 µs; input if it takes no data in and its name says that it reads; memory if it moves bytes at least half as fast as the fastest operation of this run; otherwise compute."),
      el("li", null, "“Confidence” is sure if the interval of the best variant lies wholly below that of the program as written."),
      el("li", null, "The plan's time, the what-if and the critical path come from one model: a processing unit runs one operation at a time, copies take latency plus bytes over rate and take turns on their link, everything starts as early as its order lets it."),
      DATA.whole ? el("li", null, `The graph has ${many(DATA.whole.operations, "operation")}, ${many(DATA.whole.edges, "edge")} and ${many(DATA.whole.carried, "dependence")} from one iteration to a later one. Your own functions took ${timeText(DATA.whole.regions_seconds)} between these operations.`) : null,
      events ? el("li", null, `The timeline holds ${numberText(events.kept)} of ${numberText(events.seen)} calls: the first of each operation and all that took at least ${timeText(events.least_seconds)}.`) : null)),
    card("w12", "Notes of this run", run && run.notes.length ? el("ul", null, run.notes.map((note) => el("li", null, note))) : el("p", null, "None.")),
    card("w12", "Files", table([{ name: "file" }, { name: "size", n: true }, { name: "state" }], Object.values(DATA.files).map((file) => row([code(file.name), num(sizeText(file.nbytes)),
      file.nbytes === null ? el("span", null, "not there; ", code(file.made_by), " makes it") : file.why ? el("span.chip.bad", { title: file.why }, "cannot be read") : el("span.chip.good", null, "read")]))),
      el("p.soft.small", null, `Made by CodeDAG ${DATA.codedag}. This page is one file and asks the network for nothing.`))));
} });
