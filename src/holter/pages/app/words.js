// Formats numbers and times like the report does.

/** A time since the start: `45 s`, `12:30 min`, `3:30 h`, `2 d 6 h`. @param {number} seconds @returns {string} */
export function clock(seconds) {
  if (seconds < 0) return `-${clock(-seconds)}`;
  if (seconds < 60) return seconds ? `${digits(seconds)} s` : "0";
  const whole = Math.round(seconds);
  if (whole < 3600) {
    const rest = whole % 60;
    return `${Math.floor(whole / 60)}${rest ? `:${two(rest)}` : ""} min`;
  }
  const hours = Math.floor(whole / 3600);
  if (hours < 48) return `${hours}${whole % 3600 < 60 ? "" : `:${two(Math.floor((whole % 3600) / 60))}`} h`;
  return `${Math.floor(hours / 24)} d${hours % 24 ? ` ${hours % 24} h` : ""}`;
}

/** A time since the start, to the second or finer where the span is short. @param {number} seconds @param {number} span */
export function moment(seconds, span) {
  if (seconds < 60) return `${seconds.toFixed(span < 10 ? 3 : 1)} s`;
  const part = seconds % 60;
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  const fine = span < 10 ? part.toFixed(3).padStart(6, "0") : two(Math.floor(part));
  return hours ? `${hours}:${two(minutes)}:${fine} h` : `${minutes}:${fine} min`;
}

/** A number, short: `1,200`, `0.25`, `3e-5`. @param {number} value @param {number} [most] significant digits */
export function number(value, most = 3) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-3) return value.toExponential(most - 1).replace(/(\.\d*?)0*e/, "$1e").replace(/\.?e\+?/, "e");
  return size >= 1000 ? Math.round(value).toLocaleString("en-US") : digits(value, most);
}

/** The labels of an axis: with as few digits as tell them apart, three if that is enough. @param {(number | null)[]} values */
export function numbers(values) {
  /** @type {string[]} */
  let found = [];
  for (let most = 3; most < 9; most++) {
    found = values.map((value) => (value === null ? "" : number(value, most)));
    if (new Set(found).size === new Set(values).size) break;
  }
  return found;
}

/** How many there are: `1 event`, `2,000 events`. @param {number} count @param {string} noun */
export function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** How long ago. @param {number} seconds */
export function ago(seconds) {
  if (seconds < 1.5) return "just now";
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`;
}

/** `function (file:line)` without the folder in which Python or its packages are installed. @param {string} name */
export const plain = (name) => name.replace(/\((?:[^()]*\/)?(?:site-packages|dist-packages|lib\/python3\.\d+)\//, "(");

/** @param {number} value @param {number} [most] */
const digits = (value, most = 3) => String(Number(value.toPrecision(most)));

/** @param {number} value */
const two = (value) => String(value).padStart(2, "0");
