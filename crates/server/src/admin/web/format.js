// Numbers, sizes and times as a person reads them. Always the same width for the same size, so that columns line up.

const DASH = "–";
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** Three figures and a letter: 1.23k. */
export function short(value) {
  if (!isNumber(value)) return DASH;
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return three(value / unit) + letter;
  }
  return size >= 100 || Number.isInteger(value) ? String(Math.round(value)) : three(value);
}

function three(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

/** A whole number with its thousands apart. */
export function whole(value) {
  return isNumber(value) ? Math.round(value).toLocaleString("en-GB").replaceAll(",", "\u202f") : DASH;
}

/** Bytes in powers of 1024. */
export function bytes(value) {
  if (!isNumber(value)) return DASH;
  let left = value;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (left < 1024) return `${unit === "B" ? Math.round(left) : three(left)} ${unit}`;
    left /= 1024;
  }
  return `${three(left)} TiB`;
}

/** A time that is given in microseconds. */
export function time(us) {
  if (!isNumber(us)) return DASH;
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${three(us / 1000)} ms`;
  return us < 120e6 ? `${three(us / 1e6)} s` : span(us / 1e6);
}

/** A long time in its two largest units. */
export function span(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const at = units.findIndex(([, size]) => seconds >= size);
  if (at < 0) return "0 s";
  const [letter, size] = units[at];
  const first = `${Math.floor(seconds / size)} ${letter}`;
  const next = units[at + 1];
  const rest = next ? Math.floor((seconds % size) / next[1]) : 0;
  return rest ? `${first} ${rest} ${next[0]}` : first;
}

/** A share of 1. */
export function percent(share) {
  return isNumber(share) ? `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %` : DASH;
}

/** A moment that is given in microseconds since 1970, in this browser's time. */
export function moment(us) {
  const when = new Date(us / 1000);
  const today = when.toDateString() === new Date().toDateString();
  const clock = when.toLocaleTimeString("en-GB");
  return today ? clock : `${when.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock}`;
}
