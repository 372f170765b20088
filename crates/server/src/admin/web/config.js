// The configuration: every option, changes to some of them, what they would do, and doing it.

import { call, get, patch } from "./api.js";
import { dialog, h, notice, put, say } from "./dom.js";

const ORIGINS = { default: "default", file: "file", environment: "environment", flag: "flag", change: "changed while running" };

/** A value as it stands in a field: lists and maps one entry a line. */
export function text(value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.join("\n");
  if (typeof value === "object") return Object.entries(value).map(([key, entry]) => `${key}=${entry}`).join("\n");
  return String(value);
}

/** What was written in a field, for the API: it knows what each option is, so words do. */
export function wanted(option, written) {
  // Of what is not set nobody tells whether it is one value or several; a list of one is as good as the value.
  if (typeof option.value !== "object") return written.trim();
  return written.split("\n").map((line) => line.trim()).filter(Boolean);
}

export class Config {
  id = "config";
  title = "Configuration";
  /** Asked for when it is opened and after each change: under the hands of who edits nothing moves. */
  every_ms = Infinity;

  constructor() {
    this.edits = new Map();
    this.options = [];
    /** Options that the file changes after a restart, and their values then. */
    this.waiting = new Map();
    this.search = h("input", { type: "search", placeholder: "Search: name, help, value", "aria-label": "Search options", oninput: () => this.show() });
    this.only = h("input", { type: "checkbox", onchange: () => this.show() });
    this.file = h("span", { class: "quiet" });
    const button = (name, title, act) => h("button", { type: "button", title, onclick: act }, name);
    this.list = h("div", { class: "options" });
    this.count = h("span", {});
    this.bar = h(
      "div",
      { class: "pending", hidden: true, role: "region", "aria-label": "Changes" },
      this.count,
      button("Discard", "Forget what was written", () => this.discard()),
      h("button", { type: "button", class: "main", onclick: () => this.review() }, "Review and apply"),
    );
    this.element = h(
      "div",
      {},
      h("h2", { class: "unseen" }, this.title),
      h(
        "div",
        { class: "tools" },
        this.search,
        h("label", { class: "switch" }, this.only, "only what is set"),
        button("Reload", "Read the file again, as SIGHUP does", () => this.reload()),
        button("Rewrite", "Write changes into the file", () => this.rewrite()),
        this.file,
      ),
      this.list,
      this.bar,
    );
  }

  async open() {
    await this.load();
  }

  async refresh() {}

  async load() {
    const { file, options, pending } = await get("/config");
    this.options = options;
    this.waiting = new Map(pending.map(({ name, new: next }) => [name, next]));
    say(this.file, file ? `File: ${file}` : "There is no file: changes hold until respool ends.");
    this.show();
  }

  show() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const state = (option) => (this.waiting.has(option.name) ? "after a restart" : option.origin);
    const about = (option) => `${option.name} ${option.help} ${state(option)} ${text(option.value)}`.toLowerCase();
    const fits = (option) =>
      this.edits.has(option.name) || (words.every((word) => about(option).includes(word)) && (!this.only.checked || option.origin !== "default"));
    const groups = new Map();
    for (const option of this.options.filter(fits)) {
      const at = option.name.lastIndexOf(".");
      const group = at < 0 ? "general" : option.name.slice(0, at);
      groups.set(group, [...(groups.get(group) ?? []), option]);
    }
    const rows = [...groups].map(([group, options]) => h("section", { class: "card" }, h("h3", {}, group), options.map((option) => this.option(option))));
    put(this.list, rows.length ? rows : h("p", { class: "empty" }, "No option has these words."));
    this.pending();
  }

  option(option) {
    const back = h("button", { type: "button", class: "small", title: "What the file says, or the default, counts again", onclick: () => this.edit(option, null) }, "Take back");
    const field = this.field(option);
    const about = `about-${option.name}`;
    field.setAttribute("aria-describedby", about);
    const row = h(
      "div",
      { class: this.edits.has(option.name) ? "option edited" : "option" },
      h("label", { class: "name", for: field.id }, option.name),
      h("div", { class: "value" }, field, option.origin === "change" ? back : null),
      h(
        "p",
        { class: "about", id: about },
        h("span", { class: `origin ${option.origin}` }, ORIGINS[option.origin]),
        option.live ? null : h("span", { class: "origin restart" }, "needs a restart"),
        this.waiting.has(option.name) ? h("span", { class: "origin restart" }, `after a restart: ${this.waiting.get(option.name) || "not set"}`) : null,
        code(`${option.help}. Allowed: ${option.allowed}. Default: ${option.default}.`),
      ),
    );
    if (this.edits.get(option.name) === null) row.append(h("p", { class: "about" }, "The change is to be taken back."));
    return row;
  }

  field(option) {
    // A secret is three stars, which nobody wants to send back.
    const written = this.edits.get(option.name) ?? (option.secret ? "" : text(option.value));
    const placeholder = option.secret && option.value !== null ? "set; not shown" : "not set";
    const common = { id: `option-${option.name}`, disabled: !option.live, spellcheck: "false", autocomplete: "off" };
    const input = (event) => this.edit(option, event.target.value, event.target);
    if (typeof option.value === "boolean") return this.choice(common, ["true", "false"], written, input);
    const names = option.allowed.split(", ");
    if (names.includes(option.value) && names.length > 1) return this.choice(common, names, written, input);
    const several = typeof option.value === "object" && (option.value !== null || !option.secret);
    if (several) {
      const rows = Math.max(1, Math.min(6, written.split("\n").length));
      return h("textarea", { ...common, rows, placeholder, value: written, oninput: input });
    }
    const secret = option.secret ? { type: "password", autocomplete: "new-password" } : {};
    return h("input", { ...common, ...secret, placeholder, value: written, oninput: input });
  }

  choice(common, names, written, input) {
    return h("select", { ...common, onchange: input }, names.map((name) => h("option", { value: name, selected: name === written }, name)));
  }

  /** What a person wrote; `null`: the change is taken back. */
  edit(option, written, field) {
    const same = option.secret ? written === "" : written === text(option.value);
    if (same) this.edits.delete(option.name);
    else this.edits.set(option.name, written);
    if (field) {
      field.closest(".option").classList.toggle("edited", !same);
      this.pending();
    } else this.show();
  }

  pending() {
    const count = this.edits.size;
    this.bar.hidden = count === 0;
    say(this.count, count === 1 ? "1 change is not applied" : `${count} changes are not applied`);
  }

  discard() {
    this.edits.clear();
    this.show();
  }

  wishes() {
    const option = (name) => this.options.find((known) => known.name === name);
    return Object.fromEntries([...this.edits].map(([name, written]) => [name, written === null ? null : wanted(option(name), written)]));
  }

  /** Shows what would change, as respool sees it, before anything does. */
  async review() {
    const wishes = this.wishes();
    let body;
    let apply = null;
    try {
      const { changes } = await patch(wishes, true);
      body = changes.length ? difference(changes) : h("p", {}, "Nothing would change: these are the values that hold.");
      apply = changes.length ? h("button", { type: "button", class: "main", autofocus: true, onclick: () => this.apply(wishes, box) }, "Apply") : null;
    } catch (error) {
      body = h("div", {}, h("p", {}, "respool refuses this; nothing has changed:"), h("pre", { class: "cause" }, error.message));
    }
    const back = h("button", { type: "button", onclick: () => box.close() }, apply ? "Cancel" : "Back");
    const box = dialog("What changes", body, [back, apply].filter(Boolean));
  }

  async apply(wishes, box) {
    box.close();
    const { changes } = await patch(wishes, false);
    this.edits.clear();
    notice(`${told(changes)} Rewrite puts it into the file.`);
    await this.load();
  }

  async reload() {
    const { changes } = await call("POST", "/config/reload");
    notice(`The file was read. ${told(changes)}`);
    await this.load();
  }

  async rewrite() {
    await call("POST", "/config/rewrite");
    notice("Changes stand in the file.");
    await this.load();
  }
}

/** A text with what stands between backticks as code. */
const code = (words) => words.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));

const told = (changes) => (changes.length === 0 ? "Nothing changed." : changes.length === 1 ? `${changes[0].name} changed.` : `${changes.length} options changed.`);

function difference(changes) {
  const row = ({ name, old, new: next }) => h("div", { class: "change" }, h("b", {}, name), h("del", {}, old || "not set"), h("ins", {}, next || "not set"));
  return h("div", { class: "changes" }, changes.map(row));
}
