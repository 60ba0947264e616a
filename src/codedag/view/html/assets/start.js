// Starts the report: the heading, the row of pages, keys, themes, and (when it is served) newer data.

let current = null;
const body = document.body;
const main = el("main", { id: "page", tabindex: "-1" });

function heading() {
  const run = DATA.run;
  const state = !run ? ["no run.json", "warn"] : run.status === "ok" ? ["finished", "good"]
    : run.status === "running" ? [body.dataset.live ? "running" : "still running, or killed", "warn"]
    : [`ended with exit code ${run.exit_code}`, "bad"];
  return [el("h1", { title: run ? DATA.commands.program : DATA.path }, run ? DATA.commands.program : DATA.path), el(`span.chip.${state[1]}`, null, state[0]),
    run && el("span.soft.small", null, `codedag ${run.command} · ${run.started}`), el("span.grow"),
    el("span.hint", null, "keys ", el("kbd", null, "1"), "–", el("kbd", null, "8"), " pages, ", el("kbd", null, "/"), " search"),
    el("button", { type: "button", onclick: turnTheme, title: "dark or light" }, "◐ theme")];
}

function turnTheme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}

function tabs() {
  return PAGES.map((page, at) => el("button", {
    role: "tab", id: `tab-${page.id}`, type: "button", "aria-controls": "page", "aria-selected": String(page.id === current),
    tabindex: page.id === current ? "0" : "-1", title: `key ${at + 1}`, onclick: () => { location.hash = page.id; },
  }, page.title));
}

function show(keepScroll) {
  const [id, ...rest] = decodeURIComponent(location.hash.slice(1)).split("/");
  const page = PAGES.find((one) => one.id === id) || PAGES[0];
  const changed = current !== page.id;
  current = page.id;
  const made = el(page.full ? "section.full" : "section", { role: "tabpanel", "aria-labelledby": `tab-${page.id}` });
  main.replaceChildren(made);
  page.show(made, rest.join("/"));
  nav.replaceChildren(...tabs());
  if (changed && !keepScroll) scrollTo(0, 0);
}

function keys(event) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = "12345678".indexOf(event.key);
  if (at >= 0) location.hash = PAGES[at].id;
  else if (event.key === "/") {
    const box = document.querySelector("input[type=search]");
    if (box) { event.preventDefault(); box.focus(); }
  } else if (event.target.getAttribute("role") === "tab" && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
    const now = PAGES.findIndex((page) => page.id === current), step = event.key === "ArrowRight" ? 1 : PAGES.length - 1;
    location.hash = PAGES[(now + step) % PAGES.length].id;
    setTimeout(() => document.getElementById(`tab-${current}`).focus());
  }
}

// While the run goes on the page asks for newer data; what is there stays until something newer has come.
async function follow() {
  const address = body.dataset.live;
  let version = "";
  for (;;) {
    await new Promise((done) => setTimeout(done, 1000));
    try {
      const answer = await fetch(`${address}?version=${encodeURIComponent(version)}`);
      if (answer.status === 200) {
        version = answer.headers.get("ETag") || "";
        DATA = await answer.json();
        index();
        top_.replaceChildren(...heading().filter(Boolean));
        const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
        const scrolled = scrollY;
        if (!typing) { show(true); scrollTo(0, scrolled); }
      }
    } catch {
      top_.replaceChildren(...heading().filter(Boolean), el("span.chip.warn", null, "the server has ended"));
    }
  }
}

// The data as it stands in the page, or inflated if there is much of it.
async function read() {
  const element = document.getElementById("data"), text = element.textContent;
  if (element.type === "application/json") return JSON.parse(text);
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).json();
}

let top_, nav;
async function begin() {
  DATA = await read();
  index();
  document.title = `CodeDAG: ${DATA.run ? DATA.run.script || DATA.run.argv[0] : DATA.path}`;
  top_ = el("header", null, ...heading().filter(Boolean));
  nav = el("nav", { role: "tablist", "aria-label": "pages of the report" });
  body.append(top_, nav, main);
  addEventListener("hashchange", () => show());
  addEventListener("keydown", keys);
  show();
  if (body.dataset.live) follow();
  body.dataset.ready = "yes";
}
begin().catch((error) => body.append(el("p.notice.bad", null, `This browser cannot show the report: ${error}`)));
