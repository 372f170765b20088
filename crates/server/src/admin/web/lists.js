// Tables of what there is: servers, commands, clients, keys, slow requests.

import { call, get, patch } from "./api.js";
import { ask, h, health, notice, say } from "./dom.js";
import { bytes, moment, percent, short, span, time, whole } from "./format.js";
import { Rates } from "./history.js";
import { Table } from "./table.js";

const number = (name, of, show, title) => ({ name, title, number: true, of, show: (row) => show(of(row)) });
/** So many milliseconds between two lists of clients for each that is in it: 1000 clients are asked for every five seconds. */
const CLIENT_EVERY_MS = 5;

/** A quantile of the times since the start; nothing where nothing was measured. */
const quantile = (name, field) => number(name, (row) => (row.latency.count > 0 ? row.latency[field] : null), time, "Since the start");
const share = (part, all) => (all > 0 ? part / all : null);

/** A view that is a title, something above the tables, and the tables. */
class List {
  page(...children) {
    this.element = h("div", {}, h("h2", { class: "unseen" }, this.title), children);
  }
}

export class Servers extends List {
  id = "servers";
  title = "Servers";

  constructor() {
    super();
    this.requests = new Rates();
    this.errors = new Rates();
    this.table = new Table({
      label: "Servers",
      key: (row) => `${row.pool} ${row.address}`,
      sort: "server",
      empty: "No server is configured.",
      columns: [
        { name: "server", kind: "strong", of: (row) => row.address },
        { name: "pool", number: true, of: (row) => row.pool },
        { name: "role", of: (row) => row.role },
        { name: "state", of: (row) => row.state, cell: (row) => health(row.state) },
        { name: "since", number: true, of: (row) => row.since_us, show: (row) => (row.since_us === null ? "–" : span(row.since_us / 1e6)) },
        number("requests/s", (row) => row.rate, short),
        number("errors/s", (row) => row.error_rate, short),
        quantile("p50", "p50_us"),
        quantile("p99", "p99_us"),
        quantile("p99.9", "p999_us"),
        number("in flight", (row) => row.inflight, whole),
        number("per write", (row) => share(row.requests, row.writes), short, "Requests in one write, since the start"),
        number("conns", (row) => Object.values(row.conns).reduce((sum, count) => sum + count, 0), whole),
        number("in", (row) => row.in_bytes, bytes),
        number("out", (row) => row.out_bytes, bytes),
        number("losses", (row) => row.losses, whole),
        number("timeouts", (row) => row.timeouts, whole),
        { name: "cause", kind: "long", of: (row) => row.cause },
      ],
    });
    this.page(this.table.element);
  }

  async refresh() {
    const { upstreams } = await get("/upstreams");
    const key = (row) => `${row.pool} ${row.address}`;
    const rate = this.requests.take(upstreams, key, (row) => row.requests);
    const errors = this.errors.take(upstreams, key, (row) => row.error_replies);
    this.table.update(upstreams.map((row) => ({ ...row, rate: rate(row), error_rate: errors(row) })));
  }
}

export class Commands extends List {
  id = "commands";
  title = "Commands";

  constructor() {
    super();
    this.calls = new Rates();
    this.errors = new Rates();
    this.table = new Table({
      label: "Commands",
      key: (row) => row.name,
      sort: "-calls/s",
      empty: "No command has come yet.",
      columns: [
        { name: "command", kind: "strong", of: (row) => row.name },
        number("calls/s", (row) => row.rate, short),
        number("errors/s", (row) => row.error_rate, short),
        number("calls", (row) => row.calls, whole),
        number("failed", (row) => row.failed, whole, "Error replies"),
        number("rejected", (row) => row.rejected, whole, "Refused by respool itself"),
        number("mean", (row) => share(row.latency.sum_us, row.latency.count), time),
        quantile("p50", "p50_us"),
        quantile("p99", "p99_us"),
        quantile("p99.9", "p999_us"),
      ],
    });
    this.page(this.table.element);
  }

  async refresh() {
    const { commands } = await get("/latency");
    const rate = this.calls.take(commands, (row) => row.name, (row) => row.calls);
    const errors = this.errors.take(commands, (row) => row.name, (row) => row.failed + row.rejected);
    this.table.update(commands.map((row) => ({ ...row, rate: rate(row), error_rate: errors(row) })));
  }
}

export class Errors extends List {
  id = "errors";
  title = "Errors";

  constructor() {
    super();
    this.counts = new Rates();
    this.table = new Table({
      label: "Errors",
      key: (row) => `${row.word} ${row.command}`,
      sort: "-errors/s",
      empty: "No client got an error.",
      columns: [
        { name: "error", kind: "strong", of: (row) => row.word },
        { name: "command", of: (row) => row.command },
        number("errors/s", (row) => row.rate, short),
        number("errors", (row) => row.count, whole, "Since the start"),
        { name: "last", down: true, of: (row) => row.at_unix_us, show: (row) => moment(row.at_unix_us) },
        { name: "client", of: (row) => (row.client_name ? `${row.client} ${row.client_name}` : row.client) },
        { name: "server", of: (row) => row.node || "respool" },
        { name: "text", kind: "code long", of: (row) => row.text },
      ],
    });
    this.page(this.table.element);
  }

  async refresh() {
    const { errors } = await get("/errors");
    const rate = this.counts.take(errors, (row) => `${row.word} ${row.command}`, (row) => row.count);
    this.table.update(errors.map((row) => ({ ...row, rate: rate(row) })));
  }
}

export class Clients extends List {
  id = "clients";
  title = "Clients";

  constructor() {
    super();
    const field = (name) => (row) => row[name] ?? "";
    const figure = (name) => (row) => Number(row[name] ?? NaN);
    this.table = new Table({
      label: "Clients",
      key: (row) => row.id,
      sort: "id",
      empty: "No client is connected.",
      columns: [
        number("id", figure("id"), String),
        { name: "address", kind: "strong", of: field("addr") },
        { name: "listener", title: "Where it came in", of: field("listener") },
        { name: "name", of: field("name") },
        { name: "last command", of: field("cmd") },
        number("age", figure("age"), span),
        number("idle", figure("idle"), span),
        number("db", figure("db"), whole),
        { name: "flags", title: "As in CLIENT LIST", of: field("flags") },
        { name: "resp", number: true, of: field("resp") },
        { name: "library", of: (row) => [row["lib-name"], row["lib-ver"]].filter(Boolean).join(" ") },
        { name: "", kind: "act", cell: (row) => h("button", { type: "button", class: "small", "aria-label": `Close client ${row.id}`, onclick: () => this.close(row) }, "Close"), state: (row) => row.id },
      ],
    });
    this.filter = h("input", { type: "search", placeholder: "Filter: address, listener, name, command, library", "aria-label": "Filter clients", oninput: () => this.show() });
    this.count = h("span", { class: "quiet" });
    this.list = [];
    this.page(h("div", { class: "tools" }, this.filter, this.count), this.table.element);
  }

  async refresh() {
    this.list = (await get("/clients")).clients;
    // Each client costs respool some microseconds, so a longer list is asked for less often.
    this.every_ms = Math.max(1000, this.list.length * CLIENT_EVERY_MS);
    this.show();
  }

  show() {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (row) => words.every((word) => Object.values(row).some((value) => value.toLowerCase().includes(word)));
    const rows = words.length ? this.list.filter(has) : this.list;
    say(this.count, words.length ? `${rows.length} of ${this.list.length}` : `${this.list.length} connected`);
    this.table.update(rows, words.length ? "No client has these words." : undefined);
  }

  async close(row) {
    const who = row.name ? `${row.addr} (${row.name})` : row.addr;
    if (!(await ask("Close this client?", `${who}, client ${row.id}. Its connection ends; most libraries connect again.`, "Close it"))) return;
    await call("DELETE", `/clients/${encodeURIComponent(row.id)}`);
    notice(`Client ${row.id} is closed.`);
    await this.refresh();
  }
}

export class Keys extends List {
  id = "keys";
  title = "Keys";

  constructor() {
    super();
    this.hot = new Table({
      label: "Hot keys",
      key: (row) => row.key,
      sort: "-a second",
      empty: "",
      columns: [
        { name: "key", kind: "strong long", of: (row) => row.key },
        number("a second", (row) => row.per_second, short, "An estimate, over the window that runs and the one before"),
        number("count", (row) => row.count, whole, "An estimate"),
        number("writes", (row) => share(row.writes, row.count), percent, "Of these by commands that may write"),
      ],
    });
    this.big = new Table({
      label: "Big keys",
      key: (row) => JSON.stringify([row.key, row.command, row.direction]),
      sort: "-last",
      empty: "No large request or reply was seen. What counts as large: bigkeys.bytes_min and bigkeys.elements_min in the configuration.",
      columns: [
        { name: "key", kind: "strong long", of: (row) => row.key },
        { name: "command", of: (row) => row.command },
        { name: "direction", of: (row) => row.direction },
        number("largest", (row) => row.bytes_max, bytes),
        number("elements", (row) => row.elements_max, whole),
        number("count", (row) => row.count, whole),
        number("last", (row) => row.at_unix_us, moment),
        { name: "client", of: (row) => row.client },
        { name: "server", of: (row) => row.node },
      ],
    });
    this.box = h("input", { type: "checkbox", role: "switch", onchange: () => this.turn() });
    const forget = (path) => h("button", { type: "button", class: "small", onclick: () => this.forget(path) }, "Forget");
    this.page(
      h("div", { class: "tools" }, h("h2", {}, "Hot keys"), h("label", { class: "switch" }, this.box, "count them"), forget("/hotkeys")),
      this.hot.element,
      h("div", { class: "tools" }, h("h2", {}, "Big keys"), forget("/bigkeys")),
      this.big.element,
    );
  }

  async refresh() {
    const [hot, big] = await Promise.all([get("/hotkeys"), get("/bigkeys")]);
    this.box.checked = hot.enabled;
    const none = hot.enabled ? "No key has come often enough yet." : "Keys are not counted. The switch above sets hotkeys.enabled, which costs a little for some of the requests.";
    this.hot.update(hot.keys, none);
    this.big.update(big.keys);
  }

  async turn() {
    await patch({ "hotkeys.enabled": this.box.checked }, false);
    notice(this.box.checked ? "Keys are counted from now on." : "Keys are counted no more.");
    await this.refresh();
  }

  async forget(path) {
    await call("DELETE", path);
    await this.refresh();
  }
}

export class SlowLog extends List {
  id = "slow";
  title = "Slow log";

  constructor() {
    super();
    this.table = new Table({
      label: "Slow log",
      key: (row) => row.id,
      sort: "-when",
      empty: "",
      columns: [
        { name: "when", down: true, of: (row) => row.at_unix_us, show: (row) => moment(row.at_unix_us) },
        number("took", (row) => row.took_us, time, "At the server and on the way there and back"),
        number("queued", (row) => row.queued_us, time, "How long it had waited before, in respool and behind others on its connection"),
        number("behind", (row) => row.behind, whole, "How many others waited for it"),
        { name: "request", kind: "code long", of: (row) => row.args.join(" ") },
        { name: "server", of: (row) => row.node || "respool" },
        { name: "client", of: (row) => (row.client_name ? `${row.client} ${row.client_name}` : row.client) },
      ],
    });
    const forget = h("button", { type: "button", class: "small", onclick: () => this.forget() }, "Forget all");
    this.what = h("span", { class: "quiet" });
    this.since = 0;
    this.page(h("div", { class: "tools" }, this.what, forget), this.table.element);
  }

  stats(history) {
    this.since ||= history.last.started_unix_s * 1e6;
  }

  /** Once, when the view is opened: what counts as slow. */
  async open() {
    const { options } = await get("/config");
    const value = options.find((option) => option.name === "slowlog.slower_than_us")?.value;
    say(this.what, typeof value === "number" ? `Requests that took ${time(value)} or longer (slowlog.slower_than_us).` : "");
  }

  async refresh() {
    const { entries } = await get("/slowlog");
    const since = this.since ? ` since ${moment(this.since)}, or since the log was emptied by somebody else` : "";
    this.table.update(entries, `No slow request${since}.`);
  }

  async forget() {
    await call("DELETE", "/slowlog");
    this.since = Date.now() * 1000;
    await this.refresh();
  }
}
