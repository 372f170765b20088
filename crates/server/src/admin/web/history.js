// The last minutes of /stats: rates and quantiles of each interval, from the difference of two answers.

/** Intervals that are kept: five minutes of one second each. */
export const KEPT = 300;

/** An interval that tells anything is as long as this, in microseconds. */
const SHORTEST_US = 400_000;

/** What was under way between two answers, or null where that cannot be told: the first one, a restart, counters that began again. */
export function interval(before, now) {
  const seconds = (now.uptime_us - (before?.uptime_us ?? Infinity)) / 1e6;
  if (!(seconds > 0) || before.pid !== now.pid) return null;
  const grown = (name) => now.total[name] - before.total[name];
  const rate = (name) => (grown(name) >= 0 ? grown(name) / seconds : null);
  if (rate("requests") === null) return null;
  const writes = grown("upstream_writes");
  const reads = grown("cache_hits") + grown("cache_misses");
  const times = difference(before.latency.buckets, now.latency.buckets);
  return {
    seconds,
    requests: rate("requests"),
    hits: reads > 0 ? grown("cache_hits") / reads : null,
    errors: rate("errors"),
    redirects: rate("redirects"),
    in_bytes: rate("client_in_bytes"),
    out_bytes: rate("client_out_bytes"),
    user: (now.cpu_user_us - before.cpu_user_us) / 1e6 / seconds,
    system: (now.cpu_system_us - before.cpu_system_us) / 1e6 / seconds,
    batch: writes > 0 ? grown("upstream_requests") / writes : null,
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
    p999: quantile(times, 0.999),
    clients: now.total.clients,
    inflight: now.total.inflight,
    rss: now.rss_bytes,
    buffered: now.total.buffered_bytes,
  };
}

/** Buckets [end, count] of what came between. */
export function difference(before, now) {
  const known = new Map(before);
  return now.map(([end, count]) => [end, count - (known.get(end) ?? 0)]).filter(([, count]) => count > 0);
}

/** Within so many microseconds was this share of it; null: there was nothing. */
export function quantile(buckets, share) {
  const all = buckets.reduce((sum, [, count]) => sum + count, 0);
  if (all === 0) return null;
  const rank = Math.max(1, Math.ceil(share * all));
  let seen = 0;
  for (const [end, count] of buckets) {
    seen += count;
    if (seen >= rank) return end === null ? 2 ** 26 : end - 1;
  }
  return null;
}

/** Keeps the last answer and what came of the intervals before. */
export class History {
  points = [];
  last = null;

  /** Takes an answer. */
  add(now) {
    // Two answers that came too close to each other tell of noise.
    if (this.last?.pid === now.pid && now.uptime_us - this.last.uptime_us < SHORTEST_US) return;
    const point = interval(this.last, now);
    if (this.last && this.last.pid !== now.pid) this.points = [];
    if (point) this.points.push({ at: Date.now(), ...point });
    if (this.points.length > KEPT) this.points.shift();
    this.last = now;
  }

  get newest() {
    return this.points.at(-1) ?? null;
  }
}

/** Rates of things that are counted each by itself: of `number(row)`, by `key(row)`, between two calls. */
export class Rates {
  #seen = new Map();

  /** Takes rows and gives a function that tells the rate of a row in a second; null: not known yet. */
  take(rows, key, number) {
    const now = performance.now();
    const seen = new Map();
    const rates = new Map();
    for (const row of rows) {
      const [name, value] = [key(row), number(row)];
      const last = this.#seen.get(name);
      // Two answers that came too close to each other tell nothing new.
      if (last && (now - last.at) * 1000 < SHORTEST_US) {
        seen.set(name, last);
        rates.set(name, last.rate);
        continue;
      }
      const rate = last && value >= last.value ? ((value - last.value) * 1000) / (now - last.at) : null;
      seen.set(name, { at: now, value, rate });
      rates.set(name, rate);
    }
    this.#seen = seen;
    return (row) => rates.get(key(row)) ?? null;
  }
}
