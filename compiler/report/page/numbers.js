// Numbers. Each stands in a <data> element with its value and its path in the run, so that it can be held against the
// JSON; what is read is the same number, rounded where it says so.
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });

const formats = {
  count: (value) => (Number.isInteger(value) ? whole.format(value) : precise.format(value)),
  number: (value) => (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e7) ? value.toExponential(2) : precise.format(value)),
  percent: (value) => precise.format(Number((value * 100).toPrecision(3))) + " %",
  times: (value) => precise.format(Number(value.toPrecision(3))) + "\u00d7",
  error: (value) => (value === 0 ? "0" : value.toExponential(1)),
  ms: (value) => precise.format(value) + " ms",
  signed: (value) => (value > 0 ? "+" : value < 0 ? "\u2212" : "") + whole.format(Math.abs(value)),
  bytes: (value) => {
    if (Math.abs(value) < 1000) return whole.format(value) + " B";
    const units = ["kB", "MB", "GB", "TB"];
    let unit = -1;
    let number = value;
    while (Math.abs(number) >= 1000 && unit < units.length - 1) {
      number /= 1000;
      unit += 1;
    }
    return precise.format(number) + " " + units[unit];
  },
  megahertz: (value) => precise.format(value / 1e6) + " MHz",
};

function at(root, path) {
  let value = root;
  for (const key of path) {
    if (value === null || value === undefined) return undefined;
    value = value[key];
  }
  return value;
}
/// The number at a path of a run (or of `root`, whose path in the data is `prefix`).
function numOf(prefix, root, path, format = "count") {
  const value = at(root, path);
  if (typeof value !== "number") return el("span", { class: "none" }, "\u2013");
  return el(
    "data",
    { value: String(value), "data-path": JSON.stringify(prefix.concat(path)), "data-format": format, title: String(value) },
    formats[format](value),
  );
}
const num = (path, format) => numOf(runPath(), run(), path, format);
const plain = (value, format = "count") => (typeof value === "number" ? formats[format](value) : "\u2013");
