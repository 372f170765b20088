// The console: which view is shown, when respool is asked, the theme and the keys.

import { get, Refused, waits } from "./api.js";
import { dialog, h, notice, put, say } from "./dom.js";
import { span } from "./format.js";
import { Config } from "./config.js";
import { History } from "./history.js";
import { Clients, Commands, Errors, Keys, Servers, SlowLog } from "./lists.js";
import { Overview } from "./overview.js";

const TURN_MS = 1000;
const THEMES = ["system", "light", "dark"];

const byId = (id) => document.getElementById(id);
const views = [new Overview(), new Servers(), new Commands(), new Clients(), new Keys(), new SlowLog(), new Errors(), new Config()];
const course = new History();
let view = null;
let paused = false;
let asked_at = 0;

const tabs = views.map((each) => h("a", { href: `#${each.id}` }, each.title));
put(byId("tabs"), tabs);

/** Shows what the address names. */
async function open() {
  const wanted = views.find((each) => `#${each.id}` === location.hash) ?? views[0];
  if (wanted === view) return;
  view = wanted;
  views.forEach((each, at) => (each === view ? tabs[at].setAttribute("aria-current", "page") : tabs[at].removeAttribute("aria-current")));
  tabs[views.indexOf(view)].scrollIntoView({ block: "nearest", inline: "nearest" });
  document.title = `${view.title} · respool`;
  put(byId("main"), view.element);
  asked_at = -Infinity;
  if (course.last) view.stats?.(course);
  await turn(true);
}

let turning = false;

/** Asks once, unless nobody looks; `fresh`: the view was opened right now. */
async function turn(fresh = false) {
  if (document.hidden || waits() || (turning && !fresh) || (paused && !fresh)) return;
  turning = true;
  const shown = view;
  try {
    const [stats] = await Promise.all([get("/stats"), ready()]);
    course.add(stats);
    facts(stats);
    views.forEach((each) => (each === shown ? each.stats?.(course) : null));
    if (fresh) await shown.open?.();
    if (performance.now() - asked_at >= (shown.every_ms ?? TURN_MS) - TURN_MS / 2) {
      asked_at = performance.now();
      await shown.refresh();
    }
    document.body.dataset.turns = Number(document.body.dataset.turns ?? 0) + 1;
  } catch (error) {
    if (error instanceof Refused) notice(error.message, true);
    else state("down", "no answer", `respool does not answer and is asked again every second (${error.message}).`);
  } finally {
    turning = false;
  }
}

async function ready() {
  try {
    await get("/readyz");
    state("ready", "ready", "");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    state("connecting", "not ready", `Not ready: ${error.message}`);
  }
}

function state(kind, word, why) {
  const badge = byId("state");
  badge.className = `health ${kind}`;
  say(badge, word);
  byId("why").hidden = why === "";
  say(byId("why"), why);
}

function facts(stats) {
  say(byId("facts"), `${stats.version} · pid ${stats.pid} · up ${span(stats.uptime_us / 1e6)}`);
}

function theme(name) {
  const root = document.documentElement;
  if (name === "system") delete root.dataset.theme;
  else root.dataset.theme = name;
  localStorage.setItem("respool-theme", name);
  const word = { system: "auto", light: "light", dark: "dark" }[name];
  put(byId("theme"), h("span", { class: "wide" }, "Theme: "), word);
  byId("theme").setAttribute("aria-label", `Theme: ${word}`);
}

const next_theme = () => theme(THEMES[(THEMES.indexOf(localStorage.getItem("respool-theme") ?? "system") + 1) % THEMES.length]);

function pause() {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  say(byId("pause"), paused ? "Go on" : "Pause");
  if (!paused) turn();
}

function shortcuts() {
  const rows = [
    [`1 … ${views.length}`, "the views"],
    ["/", "search or filter"],
    ["p", "stop asking, go on"],
    ["t", "theme: as the system, light, dark"],
    ["Esc", "close a window, leave a field"],
    ["?", "this"],
  ];
  const list = h("dl", { class: "keys" }, rows.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]));
  const box = dialog("Shortcuts", list, [h("button", { type: "button", autofocus: true, onclick: () => box.close() }, "Close")]);
}

function press(event) {
  const writes = event.target.closest("input, textarea, select");
  if (writes && event.key === "Escape") writes.blur();
  if (writes || event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  const wanted = views[Number(event.key) - 1];
  if (wanted) location.hash = wanted.id;
  else if (event.key === "?") shortcuts();
  else if (event.key === "t") next_theme();
  else if (event.key === "p") pause();
  else if (event.key === "/") byId("main").querySelector("input[type=search]")?.focus();
  else return;
  event.preventDefault();
}

// What a press of a button could not do is told, whichever button it was.
addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  notice(event.reason?.message ?? String(event.reason), true);
});
addEventListener("hashchange", open);
addEventListener("keydown", press);
document.addEventListener("visibilitychange", () => turn());
byId("pause").addEventListener("click", pause);
byId("theme").addEventListener("click", next_theme);
byId("help").addEventListener("click", shortcuts);
theme(localStorage.getItem("respool-theme") ?? "system");
setInterval(() => turn(), TURN_MS);
open();
