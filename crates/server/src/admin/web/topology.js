// The map of the servers: pools, primaries with their copies, who owns which slots.

import { get } from "./api.js";
import { h, health, put, s } from "./dom.js";
import { bytes, short, whole } from "./format.js";
import { Rates } from "./history.js";

const SLOTS = 16384;
/** Ranges of one server that are written out; more are counted. */
const RANGES_SHOWN = 3;
/** Tones of the bar, so that neighbours differ. */
const TONES = 4;

const size = (slots) => slots.reduce((sum, [first, last]) => sum + last - first + 1, 0);

export class Topology {
  constructor() {
    this.element = h("div", { class: "pools" }, h("p", { class: "empty" }, "Asking for the servers …"));
    this.rates = new Rates();
    this.drawn = "";
  }

  async refresh() {
    const [{ pools }, { upstreams }] = await Promise.all([get("/topology"), get("/upstreams")]);
    const place = (pool, address) => `${pool} ${address}`;
    const rate = this.rates.take(upstreams, (row) => place(row.pool, row.address), (row) => row.requests);
    const figures = new Map(upstreams.map((row) => [place(row.pool, row.address), { ...row, rate: rate(row) }]));
    // What did not change is not drawn again; the figures are written into what is there.
    const text = JSON.stringify(pools);
    if (text !== this.drawn) {
      this.drawn = text;
      this.places = new Map();
      put(this.element, pools.map((pool, at) => this.pool(pool, at)));
      if (pools.length === 0) put(this.element, h("p", { class: "empty" }, "No server is configured."));
    }
    for (const [key, element] of this.places) {
      const row = figures.get(key);
      element.textContent = row ? `${short(row.rate)} req/s · ${whole(row.inflight)} in flight` : "not connected";
    }
  }

  pool(pool, at) {
    const owners = pool.nodes.filter((node) => node.slots.length > 0);
    const copies = (node) => pool.nodes.filter((other) => other.copy_of === node.address);
    const first = pool.nodes.filter((node) => node.copy_of === "" || !pool.nodes.some((other) => other.address === node.copy_of));
    const name = pool.shard ? `${pool.shard} · ${pool.kind}` : pool.kind;
    return h(
      "section",
      { class: "card pool" },
      h("h3", {}, name, " ", h("span", { class: `health ${pool.ready ? "ready" : "down"}` }, pool.ready ? "every key is served" : "not ready")),
      pool.cause ? h("p", { class: "cause" }, pool.cause) : null,
      pool.kind === "cluster" ? this.slots(owners) : null,
      h(
        "ul",
        { class: "groups" },
        first.map((node) =>
          h("li", {}, this.node(node, at, owners.indexOf(node)), copies(node).length ? h("ul", {}, copies(node).map((copy) => h("li", {}, this.node(copy, at, -1)))) : null),
        ),
      ),
    );
  }

  /** All slots as one bar, in the tones of their owners. */
  slots(owners) {
    const covered = owners.reduce((sum, node) => sum + size(node.slots), 0);
    const parts = owners.flatMap((node, at) =>
      node.slots.map(([first, last]) =>
        s("rect", { class: `tone${at % TONES}`, x: first, width: last - first + 1, y: 0, height: 10 }, s("title", {}, `${first}–${last}: ${node.address}`)),
      ),
    );
    const missing = SLOTS - covered;
    const words = missing > 0 ? `${whole(missing)} of ${whole(SLOTS)} slots have no owner` : `${whole(SLOTS)} slots, ${owners.length} owners`;
    return h(
      "figure",
      { class: "slots" },
      s("svg", { viewBox: `0 0 ${SLOTS} 10`, preserveAspectRatio: "none", role: "img", "aria-label": words }, s("rect", { class: "none", width: SLOTS, height: 10 }), parts),
      h("figcaption", { class: missing > 0 ? "cause" : "quiet" }, words),
    );
  }

  node(node, pool, owner) {
    const figures = h("span", { class: "figures" });
    this.places.set(`${pool} ${node.address}`, figures);
    const ranges = node.slots.map(([first, last]) => (first === last ? String(first) : `${first}–${last}`));
    const more = ranges.length > RANGES_SHOWN ? ` and ${ranges.length - RANGES_SHOWN} more` : "";
    const facts = [
      node.zone ? `zone ${node.zone}` : null,
      ranges.length ? `slots ${ranges.slice(0, RANGES_SHOWN).join(", ")}${more}` : null,
      node.behind_bytes > 0 ? `${bytes(node.behind_bytes)} behind` : null,
      node.unfit ? "takes no reads for now" : null,
    ].filter(Boolean);
    return h(
      "div",
      { class: `node ${node.state}` },
      owner >= 0 ? h("i", { class: `swatch tone${owner % TONES}` }) : null,
      h("span", { class: `role ${node.role}` }, node.role),
      h("b", { class: "address" }, node.address),
      health(node.state),
      h("div", { class: "below" }, facts.length ? h("span", {}, facts.join(" · ")) : null, figures),
      node.cause && node.state !== "ready" ? h("span", { class: "cause" }, node.cause) : null,
    );
  }
}
