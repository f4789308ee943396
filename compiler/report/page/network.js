// The network as Graphviz has drawn it. Of large ones only what is in sight is made of elements, and from far away
// nodes are one path for each class of cycles.
const network = { zoom: null, view: null, layer: null, focus: 0, nodes: null };
const kClasses = 5;
const kMostDetailed = 350;

function cycleClass(cycles, most) {
  if (!(cycles > 0) || !(most > 0)) return 0;
  return clamp(Math.ceil((cycles / most) * (kClasses - 1)), 1, kClasses - 1);
}
const wayClass = { "DRAM": "dram", "stays on the chip": "chip", "host link": "link", "host": "link", "before the first run": "dram" };

function nodeText(node) {
  const r = run();
  if (node.kind === "input") return { name: r.model_inputs[node.number].name, note: "input", value: null };
  if (node.kind === "output") return { name: r.model_outputs[node.number].name, note: "output", value: null };
  const stage = r.stages[node.number];
  return { name: stage.name, note: stage.operators.join("+") || stage.kind, value: stage.stats.cycles, stage };
}

function makeNode(node, index, graph, most) {
  const { name, note, value, stage } = nodeText(node);
  const w = graph.node_width;
  const h = graph.node_height;
  const isStage = node.kind === "stage";
  const relayout = isStage && stage.kind === "Relayout";
  const group = svg("g", {
    class: `node ${node.kind} ${isStage ? "class-" + cycleClass(value, most) : ""} ${isStage && stage.where === "host" ? "host" : ""} ${relayout ? "relayout" : ""} ${isStage && state.stage === node.number ? "chosen" : ""}`,
    transform: `translate(${node.x - w / 2} ${node.y - h / 2})`,
    tabindex: index === network.focus ? "0" : "-1",
    role: isStage ? "button" : "img",
    "aria-label": isStage ? `${name}, ${note}, ${plain(value)} cycles, on the ${stage.where}` : `${note} ${name}`,
    "data-node": String(index),
  });
  group.append(svg("rect", { class: "box", width: w, height: h, rx: isStage ? (relayout ? 23 : 6) : 23 }));
  group.append(svg("title", {}, name));
  group.append(svg("text", { class: "name", x: w / 2, y: 19, "text-anchor": "middle" }, middle(name, 23)));
  group.append(svg("text", { class: "note", x: w / 2, y: 35, "text-anchor": "middle" }, isStage ? `${shorten((stage.where === "host" ? "host: " : "") + note, 16)} \u00b7 ${plain(value)}` : note));
  if (isStage && most > 0 && value > 0) group.append(svg("rect", { class: "meter", x: 4, y: h - 5, height: 3, width: Math.max(1, ((w - 8) * value) / most) }));
  return group;
}

function drawVisible() {
  const graph = graphOfRun();
  const { k, x, y } = d3.zoomTransform(network.view);
  const width = network.view.clientWidth;
  const height = network.view.clientHeight;
  const margin = 60;
  const left = -x / k - margin;
  const top = -y / k - margin;
  const right = (width - x) / k + margin;
  const bottom = (height - y) / k + margin;
  const most = network.most;
  const hadFocus = network.layer.contains(document.activeElement);
  const isIn = (node) => node.x > left && node.x < right && node.y > top && node.y < bottom;
  const visible = [];
  graph.nodes.forEach((node, index) => {
    if (isIn(node)) visible.push(index);
  });
  const edges = graph.edges.filter(({ box }) => box[2] > left && box[0] < right && box[3] > top && box[1] < bottom);
  const detailed = visible.length <= kMostDetailed && k > 0.35;
  clear(network.layer).setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
  if (detailed && edges.length <= 4 * kMostDetailed) {
    for (const edge of edges) {
      const move = run().moves[edge.move];
      const touches = state.stage !== null && (move.from === state.stage || move.to === state.stage);
      const line = svg("path", { class: `edge way-${wayClass[move.way] || "dram"} ${touches ? "touches" : ""}`, d: edge.path, "marker-end": "url(#arrow)" });
      line.append(svg("title", {}, `${move.tensor} ${shapeText(move.shape)}: ${wayText(move)}${move.layout !== null ? "\n" + run().layouts[move.layout].text : ""}`));
      network.layer.append(line);
    }
    for (const index of visible) network.layer.append(makeNode(graph.nodes[index], index, graph, most));
    if (hadFocus) focusNode(network.focus, false);
    return;
  }
  const lines = edges.map((edge) => edge.path).join("");
  network.layer.append(svg("path", { class: "edge way-dram", d: lines }));
  const w = graph.node_width;
  const h = graph.node_height;
  const paths = Array.from({ length: kClasses + 1 }, () => []);
  for (const index of visible) {
    const node = graph.nodes[index];
    const level = node.kind === "stage" ? cycleClass(run().stages[node.number].stats.cycles, most) : kClasses;
    paths[level].push(`M${node.x - w / 2} ${node.y - h / 2}h${w}v${h}h${-w}z`);
  }
  paths.forEach((path, level) => {
    if (path.length > 0) network.layer.append(svg("path", { class: `far class-${level}`, d: path.join("") }));
  });
}

function focusNode(index, move) {
  network.focus = index;
  const node = graphOfRun().nodes[index];
  if (move) {
    const { k, x, y } = d3.zoomTransform(network.view);
    const sx = node.x * k + x;
    const sy = node.y * k + y;
    const width = network.view.clientWidth;
    const height = network.view.clientHeight;
    const half = graphOfRun().node_width * k * 0.5 + 10;
    if (k <= 0.35 || sx < half || sx > width - half || sy < 40 || sy > height - 40) {
      const scale = Math.max(k, 0.8);
      d3.select(network.view).call(network.zoom.transform, d3.zoomIdentity.translate(width / 2 - node.x * scale, height / 2 - node.y * scale).scale(scale));
    }
  }
  const found = network.layer.querySelector(`[data-node="${index}"]`);
  for (const other of network.layer.querySelectorAll('[tabindex="0"]')) other.setAttribute("tabindex", "-1");
  if (found) {
    found.setAttribute("tabindex", "0");
    found.focus({ preventScroll: true });
  }
}

/// The node that lies in a direction.
function neighbour(from, dx, dy) {
  const graph = graphOfRun();
  const here = graph.nodes[from];
  let best = from;
  let least = Infinity;
  graph.nodes.forEach((node, index) => {
    const along = (node.x - here.x) * dx + (node.y - here.y) * dy;
    const across = Math.abs((node.x - here.x) * dy) + Math.abs((node.y - here.y) * dx);
    if (index === from || along <= 1) return;
    const cost = along + 2 * across;
    if (cost < least) {
      least = cost;
      best = index;
    }
  });
  return best;
}

function fitNetwork() {
  const graph = graphOfRun();
  const width = network.view.clientWidth || 600;
  const height = network.view.clientHeight || 400;
  // The whole if that can be read, else its beginning.
  let k = Math.min(1, (width - 24) / Math.max(graph.width, 1), (height - 24) / Math.max(graph.height, 1));
  if (k < 0.5) k = clamp((width - 24) / Math.max(graph.width, 1), isNarrow() ? 0.42 : 0.55, 1);
  const tall = graph.height * k > height - 24;
  const wide = graph.width * k > width - 24;
  const first = graph.nodes.length > 0 ? graph.nodes[0].x : 0;
  const tx = wide ? width / 2 - first * k : (width - graph.width * k) / 2;
  const ty = tall ? 12 : (height - graph.height * k) / 2;
  d3.select(network.view).call(network.zoom.transform, d3.zoomIdentity.translate(tx, ty).scale(k));
}

parts.push({
  id: "network",
  title: "Network",
  draw(section) {
    const r = run();
    const graph = graphOfRun();
    network.most = r.stages.reduce((most, stage) => Math.max(most, stage.stats.cycles || 0), 0);
    network.focus = 0;
    network.layer = svg("g");
    network.view = svg(
      "svg",
      { class: "network", role: "group", "aria-label": `Network of ${r.stages.length} layers: arrows go from one to the next, Enter shows details` },
      svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { class: "arrow", d: "M0 0L8 4L0 8z" }))),
      network.layer,
    );
    let pending = false;
    network.zoom = d3.zoom().scaleExtent([0.01, 3]).on("zoom", () => {
      if (pending) return;
      pending = true;
      requestAnimationFrame(() => {
        pending = false;
        drawVisible();
      });
    });
    // The wheel scrolls the page unless Ctrl is held: a graph must not be a trap.
    network.zoom.filter(() => !d3.event.button && (d3.event.type !== "wheel" || d3.event.ctrlKey || d3.event.metaKey));
    const zoomBy = (factor) => d3.select(network.view).call(network.zoom.scaleBy, factor);
    network.view.addEventListener("click", (event) => {
      const found = event.target.closest("[data-node]");
      if (!found) return;
      const node = graph.nodes[Number(found.dataset.node)];
      network.focus = Number(found.dataset.node);
      if (node.kind === "stage") choose(node.number, true);
    });
    network.view.addEventListener("keydown", (event) => {
      const directions = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
      if (directions[event.key]) {
        focusNode(neighbour(network.focus, ...directions[event.key]), true);
      } else if (event.key === "Enter" || event.key === " ") {
        const node = graph.nodes[network.focus];
        if (node && node.kind === "stage") choose(node.number, true);
      } else if (event.key === "+" || event.key === "=") {
        zoomBy(1.4);
      } else if (event.key === "-") {
        zoomBy(1 / 1.4);
      } else if (event.key === "0") {
        fitNetwork();
      } else {
        return;
      }
      event.preventDefault();
    });
    const button = (text, label, action) => el("button", { type: "button", class: "tool", "aria-label": label, onclick: action }, text);
    const height = clamp(graph.height + 24, 220, isNarrow() ? 460 : 620);
    network.view.style.height = `${height}px`;
    const legend = el(
      "div", { class: "legend" },
      el("span", {}, "cycles "),
      Array.from({ length: kClasses }, (_, level) => el("span", { class: `swatch class-${level}` }, level === 0 ? "0" : "\u2581\u2583\u2585\u2588"[level - 1])),
      el("span", { class: "muted" }, " none to most; the bar in a node is its share of the slowest"),
    );
    const lines = el(
      "div", { class: "legend" },
      [["dram", "by DRAM"], ["chip", "stays on the chip"], ["link", "over the host link"]].map(([name, text]) =>
        el("span", { class: "line-key" }, svg("svg", { width: 34, height: 10, "aria-hidden": "true" }, svg("path", { class: `edge way-${name}`, d: "M1 5H33" })), text)),
    );
    section.append(
      el("div", { class: "bar" }, button("+", "Zoom in", () => zoomBy(1.4)), button("\u2212", "Zoom out", () => zoomBy(1 / 1.4)), button("fit", "Show all or the beginning", fitNetwork), el("span", { class: "muted" }, "drag to move, Ctrl and wheel to zoom")),
      el("div", { class: "frame" }, network.view),
      legend, lines,
      el("p", { class: "muted" }, "Round nodes are relayouts, inputs and outputs; a broken border is the host's."),
    );
    d3.select(network.view).call(network.zoom).on("dblclick.zoom", null);
    fitNetwork();
  },
  chosen(index) {
    const at = graphOfRun().nodes.findIndex((node) => node.kind === "stage" && node.number === index);
    if (at >= 0) network.focus = at;
    drawVisible();
  },
});
