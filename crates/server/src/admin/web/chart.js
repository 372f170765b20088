// Small charts of the last minutes, drawn as SVG: lines, or areas that stand on each other.

import { h, put, s, say } from "./dom.js";
import { span } from "./format.js";
import { KEPT } from "./history.js";

const WIDTH = 300;
const HEIGHT = 84;
/** Room above the highest value. */
const TOP = 16;
/** An interval that is longer than so many milliseconds is a gap: nobody looked. */
const GAP_MS = 5000;

/** Spans of time that are shown, in seconds: the first one in which all points fit. */
const SPANS = [60, 120, KEPT];

/** A round number that is not below the value: where the scale ends. `base`: of units, as 1024 for bytes. */
export function ceiling(value, base = 10) {
  if (!(value > 0)) return 1;
  if (base > 10) {
    const unit = base ** Math.floor(Math.log(value) / Math.log(base));
    return ceiling(value / unit) * unit;
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value) * power;
}

/**
 * A card with a title, the newest values, and their course.
 * `lines`: { name, of, tone } with `of` a function of a point; `show` writes a value; `stack`: areas on each other; `to`: the view with more of it; `base`: see `ceiling`.
 */
export class Chart {
  constructor({ title, hint, to, lines, show, stack = false, least = 0, base = 10 }) {
    Object.assign(this, { title, lines, show, stack, least, base });
    this.heads = lines.map((line) => h("b", {}, "–"));
    this.labels = lines.map((line, at) =>
      h("span", { class: "series" }, h("i", { class: `key ${line.tone}` }), lines.length > 1 ? `${line.name} ` : null, this.heads[at]),
    );
    this.area = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    this.top = h("span", { class: "top" });
    this.when = h("span", { class: "when" });
    this.frame = h("div", { class: "plot" }, this.area, this.top, this.when);
    this.element = h(
      "section",
      { class: "card chart", title: hint },
      h("h3", {}, to ? h("a", { href: to }, title) : title),
      h("p", { class: "values" }, this.labels),
      this.frame,
    );
    this.frame.addEventListener("pointermove", (event) => this.look(event));
    this.frame.addEventListener("pointerleave", () => this.look(null));
    this.points = [];
    this.at = null;
  }

  /** Draws all points. */
  update(points) {
    this.points = points;
    this.width = SPANS.find((span) => points.length <= span) ?? KEPT;
    const values = points.map((point) => this.lines.map((line) => line.of(point)));
    const heights = values.map((row) => (this.stack ? row.reduce((sum, value) => sum + (value ?? 0), 0) : Math.max(...row.map((value) => value ?? 0))));
    this.most = ceiling(Math.max(this.least, ...heights), this.base);
    const parts = [s("line", { class: "grid", x1: 0, x2: WIDTH, y1: this.y(this.most / 2), y2: this.y(this.most / 2) })];
    const under = points.map(() => 0);
    this.lines.forEach((line, index) => {
      const course = values.map((row, at) => {
        if (row[index] === null || row[index] === undefined) return null;
        const low = this.stack ? under[at] : 0;
        under[at] += this.stack ? row[index] : 0;
        return [low, low + row[index]];
      });
      parts.push(...this.draw(course, line.tone, this.stack || this.lines.length === 1));
    });
    this.mark = s("line", { class: "mark", y1: 0, y2: HEIGHT, visibility: "hidden" });
    put(this.area, parts, this.mark);
    // A scale is round: 40k, not 40.0k.
    say(this.top, this.show(this.most).replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, ""));
    this.tell();
  }

  x(at) {
    return WIDTH - ((this.points.length - 1 - at) * WIDTH) / (this.width - 1);
  }

  y(value) {
    return (HEIGHT - 1 - (Math.min(value, this.most) / this.most) * (HEIGHT - TOP)).toFixed(1);
  }

  /** A course as lines, broken where there is no value or nobody looked. */
  draw(course, tone, filled) {
    const runs = [];
    let run = [];
    course.forEach((pair, at) => {
      const gap = at > 0 && this.points[at].at - this.points[at - 1].at > GAP_MS;
      if (run.length && (pair === null || gap)) run = (runs.push(run), []);
      if (pair !== null) run.push([this.x(at).toFixed(1), this.y(pair[0]), this.y(pair[1])]);
    });
    if (run.length) runs.push(run);
    return runs.flatMap((run) => {
      const line = run.map(([x, , y]) => `${x},${y}`).join(" ");
      const back = run.map(([x, y]) => `${x},${y}`).reverse().join(" ");
      const shape = filled && run.length > 1 ? [s("polygon", { class: `fill ${tone}`, points: `${line} ${back}` })] : [];
      // One point alone is a line of no length, whose round ends are seen.
      return [...shape, s("polyline", { class: `line ${tone}`, points: run.length > 1 ? line : `${line} ${line}` })];
    });
  }

  /** Shows the values under the pointer instead of the newest ones. */
  look(event) {
    const box = this.frame.getBoundingClientRect();
    const from = event ? (event.clientX - box.left) / box.width : null;
    const back = from === null ? 0 : Math.round((1 - from) * (this.width - 1));
    const at = this.points.length - 1 - back;
    this.at = from === null || at < 0 ? null : this.points[at].at;
    this.tell();
  }

  tell() {
    const at = this.at === null ? -1 : this.points.findIndex((point) => point.at === this.at);
    const point = this.points[at < 0 ? this.points.length - 1 : at];
    this.lines.forEach((line, index) => say(this.heads[index], point ? this.show(line.of(point)) : "–"));
    say(this.when, at < 0 ? span(this.width ?? SPANS[0]) : new Date(point.at).toLocaleTimeString("en-GB"));
    this.mark?.setAttribute("visibility", at < 0 ? "hidden" : "visible");
    if (at >= 0) {
      this.mark.setAttribute("x1", this.x(at));
      this.mark.setAttribute("x2", this.x(at));
    }
  }
}
