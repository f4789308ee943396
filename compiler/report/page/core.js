// The data, which file and run of it are shown, which layer is chosen, and how elements are made. Names from the
// data are always text: nothing here reads HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const state = { file: 0, run: 0, program: 0, stage: null, layout: 0 };
const parts = []; // of the page: {id, title, applies(), draw(section), chosen(stage)}

const runs = () => data.files[state.file].runs;
/// What was run as a whole; if it was compiled while it ran, it has programs, of which run() is one.
const wholeRun = () => runs()[state.run];
const run = () => (wholeRun().programs ? wholeRun().programs[state.program].run : wholeRun());
const hasRun = () => !wholeRun().programs || wholeRun().programs.length > 0;
const runPath = () => ["files", state.file, "runs", state.run].concat(wholeRun().programs ? ["programs", state.program, "run"] : []);
const graphOfRun = () => {
  const graphs = data.files[state.file].graphs;
  const graph = graphs[state.run];
  if (wholeRun().programs) return graph[state.program];
  return typeof graph === "number" ? graphs[graph] : graph;
};

const SVG = "http://www.w3.org/2000/svg";
function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined) continue;
    element.append(child);
  }
  return element;
}
function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  return element;
}
function el(tag, attributes, ...children) {
  return append(setAttributes(document.createElement(tag), attributes), children);
}
function svg(tag, attributes, ...children) {
  return append(setAttributes(document.createElementNS(SVG, tag), attributes), children);
}
function clear(element) {
  element.replaceChildren();
  return element;
}
const by = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const shorten = (text, length) => (text.length <= length ? text : text.slice(0, length - 1) + "\u2026");
/// Names differ at their ends.
const middle = (text, length) => (text.length <= length ? text : text.slice(0, Math.ceil(length / 2) - 1) + "\u2026" + text.slice(text.length - Math.floor(length / 2)));
const isNarrow = () => window.innerWidth < 700;
const reducedMotion = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

/// Something is said to those who don't see it.
function say(text) {
  by("live").textContent = text;
}

/// A button that opens a layer's details.
function stageLink(index) {
  const stage = run().stages[index];
  return el("button", { class: "link", type: "button", onclick: () => choose(index, true) }, stage.name || "(no name)");
}

function choose(index, moveFocus) {
  state.stage = index;
  for (const part of parts) if (part.chosen) part.chosen(index);
  showDetails(index, moveFocus);
}
