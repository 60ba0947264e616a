// Icicle: the user's functions from the outside in, operations below them, width = seconds of their own and all below.

// A tree of what was sampled, of workers below a box of their own; of a traced run, of what was recorded.
function callTree() {
  const root = { name: "all", own: 0, total: 0, calls: 0, children: new Map(), op: null };
  const add = (path, seconds, calls, op) => {
    let node = root;
    root.total += seconds;
    for (const name of path) {
      if (!node.children.has(name)) node.children.set(name, { name, own: 0, total: 0, calls: 0, children: new Map(), op: null });
      node = node.children.get(name);
      node.total += seconds;
    }
    node.own += seconds; node.calls += calls; node.op = op || node.op;
  };
  const recorded = OPS.filter((op) => works(op) && op.own > 0), heat = DATA.heat || { functions: [], calls: [], worker_calls: [] };
  const grow = (calls, outer) => {
    const paths = [];
    for (const [parent, label, own] of calls) { paths.push([...(parent < 0 ? outer : paths[parent]), label]); if (own > 0) add(paths[paths.length - 1], own, 0, null); }
  };
  if (heat.calls.length) { grow(heat.calls, []); grow(heat.worker_calls, ["worker processes"]); }
  else if (recorded.length && !heat.functions.length) for (const op of recorded) {
    const outer = op.context === op.name ? [] : op.context.slice(0, -op.name.length - 1).split("/").filter(Boolean);
    add([...outer, `${op.short} :${op.line}`], op.own, op.calls, op);
  } else for (const one of heat.functions) add([one.package || "your code", `${one.name} ${fileName(one.file)}:${one.line}`], one.self_seconds, 0, null);
  return root;
}

const ICICLE_ROWS = 40; // deeper calls are part of the lowest box

function icicleCard() {
  const root = callTree();
  if (!(root.total > 0)) return null;
  const state = { top: root, chosen: new Set(), search: "" }, rowHeight = 22, status = el("p.small", { role: "status", "aria-live": "polite" });
  const svg = draw("svg.icicle.chart", { tabindex: 0, role: "img", "aria-label": "icicle of functions and operations" }), holder = el("div", null, svg);
  const matches = (node) => state.search && node.name.toLowerCase().includes(state.search);
  // Seconds of all nodes that are chosen or found, each second once.
  const sum = (node, test) => test(node) ? node.total : [...node.children.values()].reduce((part, child) => part + sum(child, test), 0);
  function say() {
    const test = state.chosen.size ? (node) => state.chosen.has(node) : matches, seconds = state.chosen.size || state.search ? sum(root, test) : root.total;
    const what = state.chosen.size ? `${many(state.chosen.size, "selected box", "selected boxes")}` : state.search ? `boxes with “${state.search}”` : "everything";
    status.replaceChildren(`${what}: ${timeText(seconds)}, ${shareText(seconds / root.total)} of ${timeText(root.total)}`);
  }
  function paint() {
    const width = Math.max(holder.clientWidth || 900, 400), parts = [];
    let depth = 0;
    const place = (node, x, wide, row) => {
      if (wide < 0.6 || row > ICICLE_ROWS) return;
      depth = Math.max(depth, row + 1);
      const share = node.own / (node.total || 1), colour = node.children.size ? `var(--frame${row % 2})` : `var(--heat${1 + Math.min(3, Math.floor(4 * node.total / root.total))})`;
      const faint = (state.search && !matches(node)) ? ".faint" : "", chosen = state.chosen.has(node) ? ".chosen" : "";
      parts.push(draw(`rect${faint}${chosen}`, { x, y: row * rowHeight, width: wide, height: rowHeight - 1, fill: colour, onclick: (event) => pick(node, event), ondblclick: () => { state.top = node; paint(); } },
        draw("title", null, `${node.name}\n${timeText(node.total)} (${shareText(node.total / root.total)}), ${timeText(node.own)} of its own${node.calls ? `, ${many(node.calls, "call")}` : ""}${share ? "" : ""}`)));
      const fits = Math.floor((wide - 6) / 6.4);
      if (fits >= 3) parts.push(draw("text", { x: x + 4, y: row * rowHeight + 15, style: node.children.size ? "fill:var(--ink)" : null }, node.name.length > fits ? `${node.name.slice(0, fits - 1)}…` : node.name));
      let at = x;
      for (const child of [...node.children.values()].sort((a, b) => b.total - a.total)) { const part = wide * child.total / node.total; place(child, at, part, row + 1); at += part; }
    };
    place(state.top, 0, width, 0);
    svg.setAttribute("viewBox", `0 0 ${width} ${depth * rowHeight + 2}`);
    svg.setAttribute("height", depth * rowHeight + 2);
    svg.replaceChildren(...parts);
    say();
  }
  function pick(node, event) {
    if (!event.shiftKey && !event.ctrlKey && !event.metaKey) state.chosen.clear();
    if (!state.chosen.delete(node)) state.chosen.add(node);
    paint();
  }
  const search = el("input", { type: "search", placeholder: "find", "aria-label": "find functions and operations", oninput: (event) => { state.search = event.target.value.trim().toLowerCase(); state.chosen.clear(); paint(); } });
  const rows = []; // the same as text, for those who cannot see it
  const list = (node, depth) => { if (rows.length < 60 && node.total / root.total >= 0.01) { rows.push(row([`${"\u00a0\u00a0".repeat(depth)}${node.name}`, num(timeText(node.total)), num(shareText(node.total / root.total)), num(timeText(node.own))])); [...node.children.values()].sort((a, b) => b.total - a.total).forEach((child) => list(child, depth + 1)); } };
  list(root, 0);
  setTimeout(paint);
  addEventListener("resize", () => svg.isConnected && paint());
  return card("w12", "Where time went: icicle", el("p", null, search, " ", el("button", { type: "button", onclick: () => { state.top = root; state.chosen.clear(); paint(); } }, "all"), " ",
    el("span.hint", null, "click: sum, with shift several; double click: only this")), status, holder,
    el("details", null, el("summary.soft", null, "as a table"), table([{ name: "function or operation" }, { name: "seconds", n: true }, { name: "share", n: true }, { name: "own", n: true }], rows)));
}
