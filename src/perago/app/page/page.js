// Draws what /page.json says, and asks for it again while it may change.
// Every value becomes a text node. The pictures of commits alone come as markup, escaped by the
// process that drew them.
"use strict";

const STEPS = ["queued", "polled", "input", "ran", "staged", "decided", "published", "ended"];
const STEP_TEXT = {
  queued: "put in the queue", polled: "a worker took it", input: "input files are there",
  ran: "task function ended", staged: "staged commit", decided: "decided", published: "published",
  ended: "ended in Conductor",
};
const SEEN_TEXT = { seen: "seen", follows: "follows from a later step", "not seen": "not seen" };
// What the time between two steps was spent on. Any other pair is several steps whose times are
// not known one by one.
const SPANS = {
  "queued polled": "queue", "polled input": "download", "input ran": "function",
  "ran staged": "upload", "staged decided": "publish", "staged published": "publish",
  "decided published": "publish", "published ended": "report", "decided ended": "report",
};
const SPAN_TEXT = {
  queue: "in the queue", download: "download", function: "task function", upload: "staging",
  publish: "deciding, publishing", report: "completion", work: "several steps",
  now: "still running",
};
const KINDS = {
  published: "published", staged: "staged", abandoned: "abandoned", foreign: "foreign",
  other: "other workflow", root: "input, root",
};
const ROW_PIXELS = 32; // as .row in page.css: with one height the list knows what is in sight
const ROWS_AROUND = 8; // drawn above and below, so that a slow scroll shows no gap
const CHIPS_MAX = 24; // tasks of a workflow; the list below has every attempt
const EVENTS_MAX = 400; // of one attempt, the newest; a checkpoint each second makes thousands
const LONG = 24; // characters of a fact: ids are longer, and are shortened
const LIST_SHARE = 0.55; // of the window's height
const ASK_FIRST_MS = 1000;
const ASK_LAST_MS = 5000;

function el(name, given = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.filter((each) => each !== null && each !== undefined && each !== ""));
  return made;
}

const cut = (text) => (text.length > 12 ? `${text.slice(0, 8)}…` : text);
const number = (value) => value.toLocaleString("en");

function said(text) {
  document.getElementById("said").textContent = text;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    said(`copied ${text}`);
  } catch {
    said(`not copied, the browser refuses: ${text}`);
  }
}

function id(full, shown = cut(full)) {
  const act = (event) => { event.stopPropagation(); copy(full); };
  return el("button", { class: "id", type: "button", title: `${full}\nclick: copy`, "data-id": full, on: { click: act } }, shown);
}

const chip = (text, kind = text) => el("span", { class: `chip ${kind}`, title: text }, text);

function moment(clock, at, { long = false } = {}) {
  if (at === null || at === undefined) return "time not known";
  if (clock !== "utc") return `${at.toFixed(3)} s`;
  const text = new Date(at * 1000).toISOString();
  return long ? text.replace("T", " ").slice(0, 23) + " UTC" : text.slice(11, 19);
}

function lasting(seconds) {
  if (seconds < 0) return "";
  if (seconds < 10) return `${seconds.toFixed(seconds < 1 ? 3 : 1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

// ---- one attempt ------------------------------------------------------------------------------

const known = (attempt) => attempt.steps.filter((step) => step.at !== null);

// The parts of an attempt's time, each from one known moment to the next.
function spans(attempt, now) {
  const points = known(attempt).slice().sort((a, b) => a.at - b.at);
  const found = [];
  for (let i = 1; i < points.length; i += 1) {
    const [from, to] = [points[i - 1], points[i]];
    found.push({ from: from.at, to: to.at, kind: SPANS[`${from.name} ${to.name}`] ?? "work" });
  }
  const last = points.at(-1);
  if (last && !attempt.ended && now > last.at) {
    found.push({ from: last.at, to: now, kind: last.name === "queued" ? "queue" : "now" });
  }
  return { points, found };
}

function bar(attempt, axis) {
  const drawn = el("div", { class: "bar" });
  const share = (at) => (100 * (at - axis.from)) / (axis.to - axis.from || 1);
  const { points, found } = spans(attempt, axis.to);
  for (const { from, to, kind } of found) {
    const part = el("span", { class: `span ${kind}`, title: `${SPAN_TEXT[kind]}: ${lasting(to - from)}` });
    part.style.left = `${share(from)}%`;
    part.style.width = `${Math.max(0, share(to) - share(from))}%`;
    drawn.append(part);
  }
  for (const { at, name } of points) {
    const mark = el("span", { class: `mark ${name}`, title: `${STEP_TEXT[name]}: ${moment(axis.clock, at)}` });
    mark.style.left = `${share(at)}%`;
    drawn.append(mark);
  }
  return drawn;
}

function pips(attempt) {
  const all = attempt.steps.map((step) =>
    el("i", { class: `pip ${step.seen.replace(" ", "-")} ${step.name}`, title: `${STEP_TEXT[step.name]}: ${SEEN_TEXT[step.seen]}` }));
  const done = attempt.steps.filter((step) => step.seen !== "not seen").map((step) => step.name);
  return el("span", { class: "pips", role: "img", "aria-label": `steps: ${done.join(", ")}` }, ...all);
}

function attemptDetails(attempt, scene) {
  const { clock } = scene;
  const parts = [el("h3", {}, `${attempt.task} attempt ${attempt.number} `, chip(attempt.status))];
  if (attempt.came_to) parts.push(el("p", {}, "came to: ", el("b", {}, attempt.came_to)));
  if (attempt.reason) parts.push(el("p", { class: "reason" }, attempt.reason));
  if (attempt.code) parts.push(el("p", {}, "what it means: ", id(`perago explain ${attempt.code}`, `perago explain ${attempt.code}`)));
  const points = known(attempt);
  if (points.length > 1) {
    const axis = { clock, from: points[0].at, to: Math.max(...points.map((point) => point.at)) };
    if (!attempt.ended && axisOf(scene).to > axis.to) axis.to = axisOf(scene).to;
    parts.push(bar(attempt, axis));
  }
  parts.push(stepTable(attempt, clock), facts(attempt), events(attempt, clock));
  return parts;
}

function stepTable(attempt, clock) {
  let before = null;
  const rows = attempt.steps.map((step) => {
    const since = step.at !== null && before !== null ? `+${lasting(step.at - before)}` : "";
    before = step.at ?? before;
    const when = step.seen === "not seen" ? "" : el("span", { title: moment(clock, step.at, { long: true }) }, moment(clock, step.at));
    return el("tr", { class: step.seen.replace(" ", "-") },
      el("td", {}, el("i", { class: `pip ${step.seen.replace(" ", "-")} ${step.name}` }), ` ${STEP_TEXT[step.name]} `, step.ref ? id(step.ref) : ""),
      el("td", {}, step.seen), el("td", {}, when), el("td", {}, since));
  });
  return el("table", { class: "steps" }, el("tbody", {}, ...rows));
}

function facts(attempt) {
  const list = el("dl", {});
  const add = (name, ...values) => list.append(el("dt", {}, name), el("dd", {}, ...values));
  add("worker", attempt.worker ?? "not known");
  add("workflow", id(attempt.workflow));
  for (const [name, full] of Object.entries(attempt.refs)) {
    add(name.replaceAll("_", " "), ...full.split(" ").map((each) => id(each)));
  }
  for (const left of attempt.left) add("still there", id(left, left.length > 60 ? `${left.slice(0, 44)}…${left.slice(-12)}` : left));
  return list;
}

function events(attempt, clock) {
  if (attempt.events === null) {
    return el("p", { class: "hint" }, "The servers keep no more of it. What is not seen may have happened: an attempt removes its branch when it ends. The log of its worker has every step under its task id.");
  }
  const shown = attempt.events.slice(-EVENTS_MAX);
  const list = el("ol", { class: "events" });
  if (shown.length < attempt.events.length) list.append(el("li", {}, `${number(attempt.events.length - shown.length)} before`));
  for (const event of shown) {
    const more = Object.entries(event.facts).flatMap(([name, value]) => [` ${name} `, value.length > LONG ? id(value) : value]);
    list.append(el("li", { class: event.kind }, el("time", {}, moment(clock, event.at)), ` ${event.text}`, el("small", {}, ...more)));
  }
  return el("details", { open: true }, el("summary", {}, `${number(attempt.events.length)} events`), list);
}

function commitDetails(commit, scene) {
  const list = el("dl", {});
  const add = (name, ...values) => list.append(el("dt", {}, name), el("dd", {}, ...values));
  add("commit", id(commit.id, commit.id));
  add("kind", KINDS[commit.kind] ?? commit.kind);
  if (commit.message) add("message", commit.message);
  if (commit.at !== null) add("made", moment("utc", commit.at, { long: true }));
  if (commit.staged) add("publishes", id(commit.staged));
  for (const parent of commit.parents) add("parent", id(parent));
  for (const tag of commit.tags) add("tag", id(tag, tag));
  const attempt = scene.attempts.find((each) => each.id === commit.attempt);
  if (attempt) add("attempt", `${attempt.task} attempt ${attempt.number}`);
  return [el("h3", {}, `commit ${commit.label} `, chip(KINDS[commit.kind] ?? commit.kind, commit.kind)), list];
}

// ---- the list of attempts ---------------------------------------------------------------------

// Seconds since the page got what it shows: the bar of a running attempt grows by them.
const passed = (scene) => (performance.now() - scene.gotAt) / 1000;

function axisOf(scene) {
  if (scene.axis) return scene.axis;
  let [from, to] = [Infinity, -Infinity];
  for (const attempt of scene.attempts) {
    for (const step of attempt.steps) {
      if (step.at === null) continue;
      from = Math.min(from, step.at);
      to = Math.max(to, step.at);
    }
  }
  if (from > to) [from, to] = [0, 0];
  const open = scene.attempts.some((attempt) => !attempt.ended);
  if (open && scene.clock === "utc" && scene.readAt) to = Math.max(to, scene.readAt + passed(scene));
  scene.axis = { clock: scene.clock, from, to };
  return scene.axis;
}

// Only the rows in sight are in the document, so a thousand attempts cost what thirty do.
class Attempts {
  constructor(name, open) {
    this.open = open;
    this.scene = null;
    this.rows = [];
    this.at = -1;
    this.inner = el("div", { class: "inner" });
    this.filter = el("input", { type: "search", placeholder: "filter: task, status, worker, id", "aria-label": "filter attempts", on: { input: () => this.choose() } });
    this.count = el("span", { class: "hint" });
    this.scale = el("div", { class: "scale" });
    this.list = el("div", { class: "list", role: "listbox", tabindex: "0", "aria-label": `attempts of ${name}`, on: { scroll: () => this.later(), keydown: (event) => this.key(event) } }, this.inner);
    this.element = el("section", { class: "attempts" },
      el("div", { class: "tools" }, el("h3", {}, "Attempts"), this.count, this.filter), this.scale, this.list);
    this.name = name;
  }

  get chosen() { return this.rows[this.at] ?? null; }

  update(scene) {
    const before = this.chosen?.id;
    this.scene = scene;
    this.choose(before);
  }

  choose(before = this.chosen?.id) {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (each) => `${each.task} ${each.number} ${each.status} ${each.came_to} ${each.worker ?? ""} ${each.id} ${each.code ?? ""}`.toLowerCase();
    this.rows = this.scene.attempts.filter((each) => words.every((word) => text(each).includes(word)));
    this.at = this.rows.findIndex((each) => each.id === before);
    const all = this.scene.attempts.length;
    this.count.textContent = this.rows.length === all ? number(all) : `${number(this.rows.length)} of ${number(all)}`;
    this.inner.style.height = `${this.rows.length * ROW_PIXELS}px`;
    this.list.style.height = `${Math.min(this.rows.length * ROW_PIXELS + 2, Math.max(5 * ROW_PIXELS, innerHeight * LIST_SHARE))}px`;
    const axis = axisOf(this.scene);
    const shares = [0, 0.25, 0.5, 0.75];
    this.scale.replaceChildren(...shares.map((share) => el("span", {}, moment(axis.clock, axis.from + share * (axis.to - axis.from)))));
    this.draw();
  }

  later() {
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => { this.waits = false; this.draw(); });
  }

  draw() {
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW_PIXELS) - ROWS_AROUND);
    const height = this.list.clientHeight || innerHeight * LIST_SHARE;
    const last = Math.min(this.rows.length, first + Math.ceil(height / ROW_PIXELS) + 2 * ROWS_AROUND);
    const rows = [];
    for (let i = first; i < last; i += 1) rows.push(this.row(i));
    this.inner.replaceChildren(...rows);
    if (this.at >= 0) this.list.setAttribute("aria-activedescendant", `${this.name}-${this.at}`);
    else this.list.removeAttribute("aria-activedescendant");
  }

  row(i) {
    const attempt = this.rows[i];
    const points = known(attempt);
    const last = attempt.ended ? points.at(-1)?.at : axisOf(this.scene).to;
    const made = el("div", { class: "row", role: "option", id: `${this.name}-${i}`, "aria-selected": i === this.at ? "true" : "false", "aria-setsize": this.rows.length, "aria-posinset": i + 1, on: { click: () => { this.move(i); this.open(attempt); } } },
      el("span", { class: "task", title: attempt.task }, attempt.task), el("span", { class: "number" }, `#${attempt.number}`),
      chip(attempt.status), el("span", { class: "came", title: attempt.code ? `${attempt.came_to}: ${attempt.code}` : attempt.came_to }, attempt.came_to, attempt.code ? ` ${attempt.code}` : ""),
      pips(attempt), bar(attempt, axisOf(this.scene)),
      el("span", { class: "time" }, points.length > 1 || !attempt.ended ? lasting(last - points[0]?.at) : ""),
      el("span", { class: "worker", title: attempt.worker ?? "" }, attempt.worker ?? ""));
    made.style.top = `${i * ROW_PIXELS}px`;
    return made;
  }

  move(to) {
    if (!this.rows.length) return;
    this.at = Math.min(Math.max(0, to), this.rows.length - 1);
    const top = this.at * ROW_PIXELS;
    if (top < this.list.scrollTop) this.list.scrollTop = top;
    const below = top + ROW_PIXELS - this.list.clientHeight;
    if (below > this.list.scrollTop) this.list.scrollTop = below;
    this.draw();
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.list.clientHeight / ROW_PIXELS) - 1);
    const moves = { ArrowDown: this.at + 1, ArrowUp: this.at - 1, PageDown: this.at + page, PageUp: this.at - page, Home: 0, End: this.rows.length - 1 };
    if (event.key in moves) this.move(moves[event.key]);
    else if (event.key === "Enter" && this.chosen) this.open(this.chosen, true);
    else if (event.key === "c" && this.chosen && !event.ctrlKey && !event.metaKey) copy(this.chosen.id);
    else return;
    event.preventDefault();
  }
}

// ---- one scene --------------------------------------------------------------------------------

class Scene {
  constructor(index) {
    this.head = el("header", {});
    this.flow = el("div", { class: "flow" });
    this.graphs = el("div", { class: "graphs" });
    this.details = el("aside", { class: "details", tabindex: "-1", "aria-label": "details" });
    this.missing = el("div", {});
    this.open = null;
    this.attempts = new Attempts(`list-${index}`, (attempt, focus) => this.show("attempt", attempt.id, focus));
    this.element = el("section", { class: "scene", on: { keydown: (event) => this.key(event) } }, this.head, this.flow, this.graphs,
      el("div", { class: "split" }, this.attempts.element, this.details), this.missing);
  }

  update(scene, graphs, readAt) {
    this.scene = { ...scene, readAt, gotAt: performance.now() };
    const policy = scene.policy ? el("span", { class: "policy hint" }, `policy ${scene.policy}`) : "";
    const title = scene.title ? el("h2", {}, scene.title, " ", scene.status ? chip(scene.status) : "", " ", policy) : "";
    this.head.replaceChildren(title,
      ...scene.problems.map((each) => el("p", { class: "broken" }, each)));
    this.flow.replaceChildren(...scene.workflows.map((each) => this.workflow(each)), this.runs());
    this.draw(graphs);
    this.attempts.element.hidden = !scene.attempts.length;
    this.attempts.update(this.scene);
    if (this.open) this.fill();
    this.missing.replaceChildren(...(scene.missing.length
      ? [el("h3", {}, "What the servers could not tell"), el("ul", { class: "missing" }, ...scene.missing.map((each) => el("li", {}, each)))] : []));
  }

  // Nothing new, but time has passed.
  tick() {
    if (this.scene.clock !== "utc" || this.scene.attempts.every((attempt) => attempt.ended)) return;
    this.scene.axis = null;
    this.attempts.choose();
  }

  workflow(found) {
    const chips = found.tasks.slice(0, CHIPS_MAX).map((task) =>
      el("li", { class: task.status, title: `${task.name}: ${task.status}, attempts: ${task.attempts}${task.decision ? `, decision ${task.decision}` : ""}` },
        task.name, " ", el("small", {}, task.attempts > 1 ? `${task.status} ×${number(task.attempts)}` : task.status)));
    if (found.tasks.length > CHIPS_MAX) chips.push(el("li", { class: "more" }, `${number(found.tasks.length - CHIPS_MAX)} more tasks`));
    return el("div", { class: "workflow" },
      el("p", {}, `workflow ${found.name === found.id ? "" : found.name} `, id(found.id), " ", chip(found.status)),
      found.reason ? el("p", { class: "reason" }, found.reason) : "",
      el("ol", { class: "tasks" }, ...chips),
      ...found.children.map((child) => el("p", {}, "its sub-workflow has attempts of its own: ", id(`perago watch ${child}`, `perago watch ${cut(child)}`))));
  }

  runs() {
    const each = (run) => el("li", {}, chip(run.state), " run ", run.branch ? id(run.branch, `perago-run-${cut(run.key)}`) : "", ` of ${run.target}`,
      run.publication ? " published as " : "", run.publication ? id(run.publication) : "",
      run.state === "held" && run.key ? el("span", {}, ": ", id(`perago diff ${run.branch}`, "perago diff"), " ", id(`perago abandon ${run.branch}`, "perago abandon")) : "");
    return this.scene.runs.length ? el("ul", { class: "runs" }, ...this.scene.runs.map(each)) : "";
  }

  draw(graphs) {
    const ends = [...this.graphs.querySelectorAll(".picture")].map((box) => box.scrollLeft + box.clientWidth >= box.scrollWidth - 4 ? null : box.scrollLeft);
    this.graphs.replaceChildren(...this.scene.repositories.map((repository, i) => {
      const template = document.createElement("template");
      template.innerHTML = graphs[i].svg; // drawn and escaped by commit_graph.py
      const box = el("div", { class: "picture", tabindex: "-1" }, template.content);
      const omitted = graphs[i].omitted ? el("p", { class: "hint" }, `${number(graphs[i].omitted)} older commits and private branches are not drawn; perago attempts --tree has all`) : "";
      this.wire(box, repository);
      return el("div", {}, el("h3", {}, repository.name), box, omitted);
    }));
    [...this.graphs.querySelectorAll(".picture")].forEach((box, i) => { box.scrollLeft = ends[i] ?? box.scrollWidth; });
  }

  wire(box, repository) {
    const commits = new Map();
    for (const branch of repository.branches) for (const commit of branch.commits) commits.set(commit.id, commit);
    const across = (dot) => Number(dot.querySelector("circle").getAttribute("cx"));
    const dots = [...box.querySelectorAll("g.commit")].filter((dot) => commits.has(dot.dataset.commit)).sort((a, b) => across(a) - across(b));
    this.commits = new Map([...(this.commits ?? []), ...commits]);
    dots.forEach((dot, i) => {
      dot.setAttribute("role", "button");
      dot.setAttribute("tabindex", i === dots.length - 1 ? "0" : "-1");
      dot.addEventListener("click", () => this.show("commit", dot.dataset.commit));
      dot.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (step) dots[Math.min(Math.max(0, i + step), dots.length - 1)].focus();
        else if (event.key === "Enter" || event.key === " ") this.show("commit", dot.dataset.commit, true);
        else return;
        event.preventDefault();
      });
    });
  }

  show(kind, name, focus = false) {
    this.open = { kind, name };
    this.fill();
    if (focus) this.details.focus();
  }

  fill() {
    const { kind, name } = this.open;
    const found = kind === "attempt" ? this.scene.attempts.find((each) => each.id === name) : this.commits.get(name);
    if (!found) return;
    const close = el("button", { class: "close", type: "button", "aria-label": "close details", on: { click: () => this.close() } }, "×");
    const parts = kind === "attempt" ? attemptDetails(found, this.scene) : commitDetails(found, this.scene);
    this.details.replaceChildren(close, ...parts);
    const ids = new Set(kind === "attempt" ? found.steps.map((step) => step.ref) : [name]);
    for (const dot of this.graphs.querySelectorAll("g.commit")) dot.classList.toggle("selected", ids.has(dot.dataset.commit));
  }

  close() {
    this.open = null;
    this.details.replaceChildren();
    for (const dot of this.graphs.querySelectorAll(".selected")) dot.classList.remove("selected");
    this.attempts.list.focus();
  }

  key(event) {
    if (event.key !== "Escape" || !this.open) return;
    this.close();
    event.preventDefault();
  }
}

// ---- the page ---------------------------------------------------------------------------------

function legend() {
  const keys = (names, kind) => Object.entries(names).map(([name, text]) => el("span", { class: `key ${kind} ${name}` }, el("i", {}), text));
  const steps = el("p", {}, el("b", {}, "steps "), ...STEPS.flatMap((step) => [el("i", { class: `pip seen ${step}` }), ` ${STEP_TEXT[step]}  `]));
  const seen = el("p", {}, ...Object.entries(SEEN_TEXT).flatMap(([name, text]) => [el("i", { class: `pip ${name.replace(" ", "-")}` }), ` ${text}  `]));
  const commits = el("p", { class: "legend" }, ...keys(KINDS, "dot"), el("span", { class: "key dot decided" }, el("i", {}), "ring: decided"));
  const more = el("details", { class: "legend" }, el("summary", {}, "Steps, times and keys"),
    el("p", {}, el("b", {}, "time "), ...keys(SPAN_TEXT, "time")), steps, seen,
    el("p", {}, el("b", {}, "keys "), "Tab: between list, commits and details · ↑ ↓ PgUp PgDn Home End: choose an attempt · Enter: details · Esc: close them · c: copy its id · ← →: commits · /: filter"));
  return [commits, more];
}

const page = {
  tag: "", scenes: [], wait: ASK_FIRST_MS,
  start() {
    const root = document.getElementById("page");
    this.title = el("h1", {}, document.title);
    this.state = el("p", { class: "state hint", role: "status" });
    this.notice = el("p", { class: "notice", role: "alert", hidden: true });
    this.error = el("pre", { class: "error", hidden: true });
    this.holder = el("div", { class: "scenes" });
    root.replaceChildren(this.title, this.state, ...legend(), this.notice, this.error, this.holder, el("p", { id: "said", role: "status", "aria-live": "polite" }));
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.matches("input")) return;
      this.scenes[0]?.attempts.filter.focus();
      event.preventDefault();
    });
    addEventListener("resize", () => { for (const scene of this.scenes) scene.attempts.choose(); });
    this.look();
  },

  async look() {
    let live = true;
    try {
      const found = await fetch("/page.json", { headers: this.tag ? { "If-None-Match": this.tag } : {} });
      if (found.status === 200) {
        this.tag = found.headers.get("ETag") ?? "";
        performance.mark("perago-answered");
        live = this.show(await found.json());
        this.wait = ASK_FIRST_MS;
      } else {
        this.wait = Math.min(this.wait * 1.5, ASK_LAST_MS);
        live = this.live ?? true;
        for (const scene of this.scenes) scene.tick();
      }
      if (this.lost) this.say("");
      this.lost = false;
    } catch {
      this.lost = true;
      this.wait = ASK_LAST_MS;
      this.say("The command that serves this page does not answer. What is shown is the last that it said.");
    }
    if (live) setTimeout(() => this.look(), this.wait);
  },

  say(text) {
    this.notice.textContent = text || this.own || "";
    this.notice.hidden = !this.notice.textContent;
  },

  show({ page: view, graphs }) {
    this.live = view.live;
    this.own = view.notice;
    this.title.textContent = document.title = view.title;
    this.say("");
    this.error.hidden = !view.error;
    this.error.textContent = view.error;
    const read = view.read_at ? `last change seen at ${moment("utc", view.read_at, { long: true })}; ` : "";
    this.state.textContent = view.live ? `${read}this page follows` : `${read}ended: this page does not ask again`;
    while (this.scenes.length > view.scenes.length) this.scenes.pop().element.remove();
    view.scenes.forEach((scene, i) => {
      if (!this.scenes[i]) {
        this.scenes[i] = new Scene(i);
        this.holder.append(this.scenes[i].element);
      }
      this.scenes[i].update(scene, graphs[i], view.read_at);
    });
    performance.mark("perago-drawn");
    return view.live;
  },
};

page.start();
