// How it goes: the charts, the workers, and the servers below.

import { text } from "./api.js";
import { Chart } from "./chart.js";
import { h, notice, say } from "./dom.js";
import { bytes, percent, short, time, whole } from "./format.js";
import { Rates } from "./history.js";
import { Mirrors, ReadTargets, Tenants } from "./others.js";
import { Table } from "./table.js";
import { Topology } from "./topology.js";

const one = (name) => [{ name, of: (point) => point[name], tone: "a" }];

const PROFILE = "What the processor time goes to in the next five seconds, as a flame graph";

const CHARTS = [
  { title: "Requests/s", hint: "Requests of clients in a second", lines: one("requests"), show: short, least: 10 },
  {
    title: "Latency",
    hint: "Time from sending a request to its reply, of those that were answered in each second",
    lines: [
      { name: "p50", of: (point) => point.p50, tone: "a" },
      { name: "p99", of: (point) => point.p99, tone: "b" },
      { name: "p99.9", of: (point) => point.p999, tone: "c" },
    ],
    show: time,
    least: 100,
  },
  { title: "Errors/s", hint: "Error replies that clients got in a second: which errors, of which commands and clients", to: "#errors", lines: [{ name: "errors", of: (point) => point.errors, tone: "bad" }], show: short, least: 1 },
  {
    title: "CPU",
    hint: "Of one processor: the proxy's own code, and the kernel on its behalf",
    lines: [
      { name: "user", of: (point) => point.user, tone: "a" },
      { name: "system", of: (point) => point.system, tone: "b" },
    ],
    show: percent,
    stack: true,
    least: 0.1,
  },
  { title: "Requests in one write", hint: "How many requests leave for a server together: the larger, the cheaper is each", lines: one("batch"), show: short, least: 2 },
  { title: "Near cache", hint: "Share of the reads that may be kept that were answered without a server", lines: one("hits"), show: percent, least: 1 },
  {
    title: "Clients",
    hint: "Clients that are connected, and requests that wait for a reply",
    lines: [
      { name: "connected", of: (point) => point.clients, tone: "a" },
      { name: "in flight", of: (point) => point.inflight, tone: "b" },
    ],
    show: short,
    least: 10,
  },
  {
    title: "Traffic/s",
    hint: "Bytes of clients in a second",
    lines: [
      { name: "in", of: (point) => point.in_bytes, tone: "a" },
      { name: "out", of: (point) => point.out_bytes, tone: "b" },
    ],
    show: bytes,
    base: 1024,
    least: 1024,
  },
  {
    title: "Memory",
    hint: "Resident memory of the process, and bytes buffered for clients and servers",
    lines: [
      { name: "resident", of: (point) => point.rss, tone: "a" },
      { name: "buffered", of: (point) => point.buffered, tone: "b" },
    ],
    show: bytes,
    base: 1024,
    least: 1 << 20,
  },
];

/** Has a CPU profile made and saved: a page of its own would have the policy of this one, which forbids the picture's colours. */
async function profile(event) {
  const button = event.currentTarget;
  button.disabled = true;
  notice("A profile of five seconds is being made.");
  try {
    const picture = await text("/debug/flame?seconds=5", 60_000);
    const url = URL.createObjectURL(new Blob([picture], { type: "image/svg+xml" }));
    h("a", { href: url, download: "respool-flame.svg" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    notice("The flame graph is saved: respool-flame.svg.");
  } finally {
    button.disabled = false;
  }
}

export class Overview {
  id = "overview";
  title = "Overview";

  constructor() {
    this.charts = CHARTS.map((chart) => new Chart(chart));
    this.topology = new Topology();
    this.tenants = new Tenants();
    this.mirrors = new Mirrors();
    this.readTargets = new ReadTargets();
    this.busy = new Rates();
    this.requests = new Rates();
    this.workers = new Table({
      label: "Workers",
      key: (row) => row.worker,
      sort: "worker",
      empty: "No worker has answered yet.",
      columns: [
        { name: "worker", of: (row) => row.worker },
        { name: "busy", title: "CPU of its thread, of one processor", number: true, of: (row) => row.busy, show: (row) => percent(row.busy) },
        { name: "requests/s", number: true, of: (row) => row.rate, show: (row) => short(row.rate) },
        { name: "clients", number: true, of: (row) => row.clients, show: (row) => whole(row.clients) },
        { name: "in flight", number: true, of: (row) => row.inflight, show: (row) => whole(row.inflight) },
        { name: "errors", number: true, of: (row) => row.errors, show: (row) => whole(row.errors) },
        { name: "redirects", number: true, of: (row) => row.redirects, show: (row) => whole(row.redirects) },
        { name: "requests", number: true, of: (row) => row.requests, show: (row) => whole(row.requests) },
      ],
    });
    this.listeners = new Table({
      label: "Listeners",
      key: (row) => row.name,
      sort: "name",
      empty: "Nobody can come in.",
      columns: [
        { name: "listener", kind: "strong", of: (row) => row.name },
        { name: "clients", number: true, of: (row) => row.clients, show: (row) => whole(row.clients) },
      ],
    });
    this.refused = h("p", { class: "quiet" });
    this.element = h(
      "div",
      {},
      h("h2", { class: "unseen" }, "Overview"),
      h("div", { class: "charts" }, this.charts.map((chart) => chart.element)),
      h("h2", {}, "Servers"),
      this.topology.element,
      this.tenants.element,
      this.mirrors.element,
      this.readTargets.element,
      h("div", { class: "tools" }, h("h2", {}, "Workers"), h("button", { type: "button", class: "small", id: "profile", title: PROFILE, onclick: profile }, "CPU profile")),
      this.workers.element,
      h("h2", {}, "Listeners"),
      this.listeners.element,
      this.refused,
    );
  }

  /** A new answer of /stats. */
  stats(history) {
    this.charts.forEach((chart) => chart.update(history.points));
    const { workers, listeners, refused, tenants = [], mirrors = [], read_targets: readTargets = [] } = history.last;
    this.tenants.update(tenants);
    this.mirrors.update(mirrors);
    this.readTargets.update(readTargets);
    this.listeners.update(listeners);
    const reasons = Object.entries(refused).filter(([, count]) => count > 0);
    say(this.refused, reasons.length ? `Refused since the start: ${reasons.map(([why, count]) => `${whole(count)} ${why.replaceAll("_", " ")}`).join(", ")}` : "");
    const key = (worker) => worker.worker;
    const busy = this.busy.take(workers, key, (worker) => worker.busy_user_us + worker.busy_system_us);
    const rate = this.requests.take(workers, key, (worker) => worker.requests);
    const share = (worker) => (busy(worker) === null ? null : busy(worker) / 1e6);
    this.workers.update(workers.map((worker) => ({ ...worker, busy: share(worker), rate: rate(worker) })));
  }

  async refresh() {
    await Promise.all([this.topology.refresh(), this.mirrors.refresh()]);
  }
}
