// What the memories hold: an area per tensor, stacked, for each level of the tree.
const kAreas = 10;
const kPatterns = 6;

function memoryChart(level, index, cycles, width) {
  const height = 150;
  const margin = { left: 46, right: 8, top: 10, bottom: 22 };
  const bins = Math.max(1, Math.ceil(cycles / level.bin_cycles));
  const named = level.tensors.slice(0, kAreas);
  const others = level.tensors.slice(kAreas);
  const series = named.map((tensor) => tensor.lw);
  if (others.length > 0) series.push(Array.from({ length: bins }, (_, bin) => others.reduce((sum, tensor) => sum + (tensor.lw[bin] || 0), 0)));
  const rows = Array.from({ length: bins }, (_, bin) => series.map((lw) => lw[bin] || 0));
  const stacked = d3.stack().keys(series.map((_, k) => k)).value((row, k) => row[k])(rows);
  const x = d3.scaleLinear().domain([0, Math.max(cycles, 1)]).range([margin.left, width - margin.right]);
  const top = Math.max(level.peak_lw || 0, 1, ...rows.map((row) => d3.sum(row)));
  const y = d3.scaleLinear().domain([0, top]).range([height - margin.bottom, margin.top]);
  const view = svg("svg", { class: "plot-svg memory", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${level.level} over time: at most ${plain(level.peak_lw)} of ${plain(level.capacity_lw)} long words per ${level.per}. The list below names the tensors.` });
  const defs = svg("defs");
  view.append(defs);
  const area = d3.area().x((_, bin) => x(bin * level.bin_cycles)).y0((d) => y(d[0])).y1((d) => y(d[1])).curve(d3.curveStepAfter);
  stacked.forEach((layer, k) => {
    const closed = layer.concat([layer[layer.length - 1]]);
    const path = area(closed.map((d) => [d[0], d[1]]));
    const id = `fill-${state.file}-${index}-${k}`;
    defs.append(svg("pattern", { id, width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${[45, 0, 90, 135, 20, 70][k % kPatterns]})` }, svg("rect", { class: `area-${k % 11}`, width: 8, height: 8 }), svg("path", { class: "area-line", d: k % 2 === 0 ? "M0 0V8" : "M0 2V4" })));
    const shape = svg("path", { class: "area", d: path, fill: `url(#${id})` }, svg("title", {}, k < named.length ? named[k].tensor : "others"));
    view.append(shape);
    // Its number, where it is widest.
    let best = -1;
    let widest = 0;
    layer.forEach((d, bin) => {
      if (d[1] - d[0] > widest) {
        widest = d[1] - d[0];
        best = bin;
      }
    });
    const tall = y(0) - y(widest);
    if (best >= 0 && tall > 13) {
      let last = best;
      while (last + 1 < layer.length && layer[last + 1][1] - layer[last + 1][0] >= widest * 0.9) last += 1;
      if (x((last + 1) * level.bin_cycles) - x(best * level.bin_cycles) < (isNarrow() ? 4 : 2)) return;
      const cx = clamp((x(best * level.bin_cycles) + x((last + 1) * level.bin_cycles)) / 2, margin.left + 8, width - margin.right - 8);
      view.append(svg("text", { class: "area-number", x: cx, y: y((layer[best][0] + layer[best][1]) / 2) + 4, "text-anchor": "middle" }, k < named.length ? String(k + 1) : "+"));
    }
  });
  if (level.capacity_lw <= top * 1.02) view.append(svg("line", { class: "capacity", x1: margin.left, x2: width - margin.right, y1: y(level.capacity_lw), y2: y(level.capacity_lw) }));
  const axes = d3.select(view).append("g").attr("aria-hidden", "true");
  axes.append("g").attr("class", "axis").attr("transform", `translate(0 ${height - margin.bottom})`).call(d3.axisBottom(x).ticks(isNarrow() ? 4 : 8, "~s"));
  axes.append("g").attr("class", "axis").attr("transform", `translate(${margin.left} 0)`).call(d3.axisLeft(y).ticks(4, "~s"));
  const path = ["memory", "levels", index];
  const body = level.tensors.map((tensor, k) =>
    el("tr", {},
      el("td", { class: "n" }, k < kAreas ? el("span", { class: `key area-key area-${k % 11}` }, String(k + 1)) : el("span", { class: "key" }, "+")),
      el("th", { scope: "row" }, tensor.tensor),
      el("td", { class: "n" }, num(path.concat(["tensors", k, "first_cycle"]))),
      el("td", { class: "n" }, num(path.concat(["tensors", k, "last_cycle"])))));
  return el("section", { class: "level" },
    el("h3", {}, level.level, el("span", { class: "muted" }, " per ", level.per, ": at most ", num(path.concat(["peak_lw"])), " of ", num(path.concat(["capacity_lw"])), " long words, at cycle ", num(path.concat(["peak_cycle"])))),
    view,
    level.tensors.length > 0
      ? el("details", {}, el("summary", {}, "Tensors"), el("div", { class: "scroll tall" }, el("table", { class: "small" }, el("thead", {}, el("tr", {}, ["", "tensor", "from cycle", "to cycle"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, body))))
      : el("p", { class: "muted" }, "nothing that anybody reads"));
}

parts.push({
  id: "memory",
  title: "Memory",
  draw(section) {
    const memory = run().memory;
    if (!memory) {
      section.append(el("p", {}, "This run was not traced."));
      return;
    }
    const width = Math.max(300, Math.min(section.clientWidth, 1100));
    section.append(el("p", { class: "muted" }, "Long words that somebody still reads, averaged over ", num(["memory", "levels", 0, "bin_cycles"]), " cycles at a time. All memories of a level do the same. The numbers in the areas are those of the tensors in the lists.", memory.truncated ? " The run is longer than what was looked at." : ""));
    memory.levels.forEach((level, index) => section.append(memoryChart(level, index, memory.cycles, width)));
  },
  resized(section) {
    this.redraw(section);
  },
});
