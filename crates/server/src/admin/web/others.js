// Tenants, mirrors, what comparing reads with mirrors came to, and read targets. Each is shown where there is something of it.

import { get } from "./api.js";
import { h } from "./dom.js";
import { bytes, percent, short, time, whole } from "./format.js";
import { Rates } from "./history.js";
import { Table } from "./table.js";

const count = (name, of) => ({ name, number: true, of, show: (row) => whole(of(row)) });

/** When it was, of microseconds since 1970. */
const moment = (us) => (us ? new Date(us / 1000).toLocaleString("en-GB") : "–");

/** Names are unique within a tenant. */
const whose = (row) => `${row.tenant ?? ""} ${row.name}`;

const tenant = { name: "tenant", of: (row) => row.tenant ?? "", show: (row) => row.tenant ?? "–" };

const hits = (row) => (row.cache_hits + row.cache_misses > 0 ? row.cache_hits / (row.cache_hits + row.cache_misses) : null);

/** A table with its heading, hidden while it has no rows. */
class Part {
  constructor(title, options) {
    this.table = new Table({ label: title, ...options });
    this.element = h("div", { hidden: true }, h("h2", {}, title), this.table.element);
  }

  update(rows) {
    this.element.hidden = rows.length === 0;
    this.table.update(rows);
  }
}

export class Tenants {
  constructor() {
    this.requests = new Rates();
    this.errors = new Rates();
    this.part = new Part("Tenants", {
      key: (row) => row.tenant,
      sort: "tenant",
      empty: "There are none.",
      columns: [
        { name: "tenant", kind: "strong", of: (row) => row.tenant },
        count("clients", (row) => row.clients),
        { name: "requests/s", number: true, of: (row) => row.rate, show: (row) => short(row.rate) },
        { name: "errors/s", number: true, of: (row) => row.failing, show: (row) => short(row.failing) },
        count("in flight", (row) => row.inflight),
        count("requests", (row) => row.requests),
        count("errors", (row) => row.errors),
        { name: "near cache", title: "Share of the reads that may be kept that were answered without a server", number: true, of: hits, show: (row) => percent(hits(row)) },
      ],
    });
    this.element = this.part.element;
  }

  update(tenants) {
    const key = (tenant) => tenant.tenant;
    const rate = this.requests.take(tenants, key, (tenant) => tenant.requests);
    const failing = this.errors.take(tenants, key, (tenant) => tenant.errors);
    this.part.update(tenants.map((tenant) => ({ ...tenant, rate: rate(tenant), failing: failing(tenant) })));
  }
}

const compared = [
  count("equal", (row) => row.equal),
  count("different", (row) => row.different),
  { name: "mismatch", title: "Of those that were compared", number: true, of: (row) => row.mismatch_rate, show: (row) => (row.equal + row.different > 0 ? percent(row.mismatch_rate) : "–") },
  { name: "racing", title: "The key was written meanwhile: it says nothing", number: true, of: (row) => row.racing, show: (row) => whole(row.racing) },
  { name: "void", title: "The mirror did not answer, or too late", number: true, of: (row) => row.void, show: (row) => whole(row.void) },
  { name: "dropped", title: "The mirror was behind or away, and was not asked", number: true, of: (row) => row.dropped, show: (row) => whole(row.dropped) },
];

const rows = (title, name) =>
  new Part(title, {
    key: (row) => `${row.tenant ?? ""} ${row.mirror} ${row.name}`,
    sort: "-different",
    empty: "Nothing was compared.",
    columns: [
      { name: "mirror", of: (row) => row.mirror },
      tenant,
      { name, kind: "strong", of: (row) => row.name || "(none)" },
      ...compared,
      { name: "first", of: (row) => row.first_unix_us ?? 0, show: (row) => moment(row.first_unix_us) },
      { name: "last", of: (row) => row.last_unix_us ?? 0, show: (row) => moment(row.last_unix_us) },
    ],
  });

export class Mirrors {
  constructor() {
    this.part = new Part("Mirrors", {
      key: whose,
      sort: "mirror",
      empty: "There are none.",
      columns: [
        { name: "mirror", kind: "strong", of: (row) => row.name },
        tenant,
        { name: "state", of: (row) => row.state },
        { name: "lag", title: "How long ago the primary did the oldest write that it has not answered", number: true, of: (row) => row.lag_ms, show: (row) => time(row.lag_ms * 1000) },
        count("queued", (row) => row.queued),
        { name: "bytes", number: true, of: (row) => row.queued_bytes, show: (row) => bytes(row.queued_bytes) },
        count("done", (row) => row.done),
        count("failed", (row) => row.failed),
        count("dropped", (row) => row.dropped),
        count("unsure", (row) => row.unsure),
        { name: "reads", title: "Reads that were compared", number: true, of: (row) => (row.shadow ? row.shadow.equal + row.shadow.different : null), show: (row) => (row.shadow ? whole(row.shadow.equal + row.shadow.different) : "–") },
        { name: "mismatch", title: "Of the reads that were compared", number: true, of: (row) => row.shadow?.mismatch_rate ?? null, show: (row) => percent(row.shadow?.mismatch_rate ?? null) },
      ],
    });
    this.prefixes = rows("Reads compared with mirrors, by prefix", "prefix");
    this.commands = rows("Reads compared with mirrors, by command", "command");
    this.samples = new Part("The last differences", {
      key: (row) => row.at,
      sort: "-seen",
      empty: "There are none.",
      columns: [
        { name: "seen", of: (row) => row.at_unix_us, show: (row) => moment(row.at_unix_us) },
        { name: "mirror", of: (row) => row.of },
        tenant,
        { name: "command", of: (row) => row.command },
        { name: "key", kind: "strong", of: (row) => row.key },
        { name: "primary says", of: (row) => row.primary ?? "(mirrors.shadow_samples is off)" },
        { name: "mirror says", of: (row) => row.mirror ?? "" },
      ],
    });
    this.wanted = false;
    this.element = h("div", {}, [this.part, this.prefixes, this.commands, this.samples].map((part) => part.element));
  }

  update(mirrors) {
    this.part.update(mirrors);
    this.wanted = mirrors.some((mirror) => mirror.shadow);
  }

  /** Asks for the whole report, where there is one. */
  async refresh() {
    if (!this.wanted) return;
    const { mirrors } = await get("/shadow");
    const all = (name) => mirrors.flatMap((one) => one[name].map((row, at) => ({ mirror: one.mirror, tenant: one.tenant, ...row, of: one.mirror, at: `${one.tenant ?? ""} ${one.mirror} ${at}` })));
    this.prefixes.update(all("prefixes"));
    this.commands.update(all("commands"));
    this.samples.update(all("samples"));
  }
}

export class ReadTargets {
  constructor() {
    this.answers = new Rates();
    this.part = new Part("Read targets", {
      key: whose,
      sort: "target",
      empty: "There are none.",
      columns: [
        { name: "target", kind: "strong", of: (row) => row.name },
        tenant,
        { name: "state", title: "Out: it failed, and has not answered since", of: (row) => row.state },
        { name: "reads/s", title: "Reads that it answered", number: true, of: (row) => row.rate, show: (row) => short(row.rate) },
        count("open", (row) => row.open),
        { name: "bytes", title: "Of the reads under way", number: true, of: (row) => row.open_bytes, show: (row) => bytes(row.open_bytes) },
        count("answered", (row) => row.answered),
        count("failed", (row) => row.failed),
        count("late", (row) => row.late),
        count("refused", (row) => row.refused),
        count("full", (row) => row.full),
        count("hedged", (row) => row.hedged),
        { name: "outages", title: "How often it was left out", number: true, of: (row) => row.outages, show: (row) => whole(row.outages) },
      ],
    });
    this.element = this.part.element;
  }

  update(targets) {
    const rate = this.answers.take(targets, whose, (target) => target.answered);
    this.part.update(targets.map((target) => ({ ...target, rate: rate(target) })));
  }
}
