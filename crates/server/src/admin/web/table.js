// A table whose rows come again and again: cells are changed in place, so that a selection, the focus and the place of the reader stay.

import { h, put, say } from "./dom.js";

/** Rows that are shown at most; the rest is a sentence. */
const SHOWN_MAX = 500;

/**
 * `columns`: { name, title, of, show, number, down, cell }: `of` a value to sort by, `show` its text, `cell` an element instead; `down`: the largest first.
 * `key` tells rows apart, `empty` is said where there are none.
 */
export class Table {
  constructor({ label, columns, key, sort, empty }) {
    Object.assign(this, { columns, key, empty });
    [this.sort, this.down] = [sort?.replace("-", "") ?? null, sort?.startsWith("-") ?? false];
    this.rows = new Map();
    this.list = [];
    this.heads = columns.map((column) => this.head(column));
    this.body = h("tbody");
    this.note = h("p", { class: "empty" });
    const table = h("table", {}, h("thead", {}, h("tr", {}, this.heads)), this.body);
    this.frame = h("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, table);
    this.element = h("div", {}, this.frame, this.note);
    this.arrows();
  }

  head(column) {
    const kind = column.number ? "number" : null;
    if (!column.of) return h("th", { class: kind, scope: "col" }, column.name);
    const press = () => {
      this.down = this.sort === column.name ? !this.down : Boolean(column.number || column.down);
      this.sort = column.name;
      this.arrows();
      this.update(this.list);
    };
    return h("th", { class: kind, scope: "col" }, h("button", { type: "button", class: "sort", title: column.title, onclick: press }, column.name));
  }

  arrows() {
    this.columns.forEach((column, at) => {
      const order = column.name === this.sort ? (this.down ? "descending" : "ascending") : "none";
      if (column.of) this.heads[at].setAttribute("aria-sort", order);
    });
  }

  /** Shows these rows; `empty`: another sentence where there are none. */
  update(list, empty = this.empty) {
    this.list = list;
    const rows = this.sorted().slice(0, SHOWN_MAX);
    const known = this.rows;
    this.rows = new Map(rows.map((row) => [this.key(row), known.get(this.key(row)) ?? this.fresh()]));
    for (const row of rows) this.enter(this.rows.get(this.key(row)), row);
    for (const [key, { element }] of known) if (!this.rows.has(key)) element.remove();
    let next = this.body.firstChild;
    for (const { element } of this.rows.values()) {
      if (element === next) next = next.nextSibling;
      else this.body.insertBefore(element, next);
    }
    this.frame.hidden = rows.length === 0;
    const more = list.length > rows.length ? `${rows.length} of ${list.length} rows are shown.` : "";
    say(this.note, rows.length === 0 ? empty : more);
    this.note.hidden = this.note.textContent === "";
  }

  sorted() {
    const column = this.columns.find((column) => column.name === this.sort);
    if (!column) return this.list;
    const sign = this.down ? -1 : 1;
    const compare = (one, other) => {
      const [a, b] = [column.of(one), column.of(other)];
      if (a === b) return 0;
      if (a === null || a === undefined) return 1;
      if (b === null || b === undefined) return -1;
      return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    };
    return [...this.list].sort(compare);
  }

  fresh() {
    const cells = this.columns.map((column) => h("td", { class: [column.number ? "number" : "", column.kind ?? ""].join(" ").trim() || null }));
    return { element: h("tr", {}, cells), cells, was: [] };
  }

  enter(entry, row) {
    this.columns.forEach((column, at) => {
      const cell = entry.cells[at];
      if (!column.cell) return say(cell, column.show ? column.show(row) : String(column.of(row) ?? ""));
      // An element is made again only when what it shows has changed.
      const state = JSON.stringify(column.state ? column.state(row) : column.of(row));
      if (entry.was[at] === state) return undefined;
      entry.was[at] = state;
      return put(cell, column.cell(row));
    });
  }
}
