// Multiply-adds a cycle over multiply-adds per byte of DRAM traffic, both on logarithmic scales, under the roof of the
// chip: the matrix units' peak, and the DRAM's rate.
const kMostPoints = 250;
const roofline = { view: null, points: [] };

parts.push({
  id: "roofline",
  title: "Roofline",
  draw(section) {
    const r = run();
    const peak = r.peaks.products_per_cycle;
    const rate = r.peaks.dram_bytes_per_cycle;
    const all = r.stages
      .map((stage, index) => ({ index, name: stage.name, x: stage.stats.products_per_dram_byte, y: stage.stats.products_per_cycle, cycles: stage.stats.cycles }))
      .filter((point) => point.y > 0);
    if (all.length === 0 || !(peak > 0) || !(rate > 0)) {
      section.append(el("p", {}, "No layer has products."));
      roofline.view = null;
      return;
    }
    const points = all.slice().sort((a, b) => b.cycles - a.cycles).slice(0, kMostPoints);
    const total = { index: null, name: "all layers", x: r.total.products_per_dram_byte, y: r.total.products_per_cycle };
    const withX = points.concat(total.x > 0 ? [total] : []).filter((point) => point.x > 0);
    const ridge = peak / rate;
    const width = Math.max(300, Math.min(section.clientWidth, 1100));
    const height = isNarrow() ? 300 : 400;
    const margin = { left: 52, right: 84, top: 16, bottom: 40 };
    const low = Math.min(ridge / 8, ...withX.map((point) => point.x)) / 1.5;
    const high = Math.max(ridge * 8, ...withX.map((point) => point.x)) * 1.5;
    const x = d3.scaleLog().domain([low, high]).range([margin.left, width - margin.right]);
    const y = d3.scaleLog().domain([Math.min(peak / 100, ...points.map((point) => point.y)) / 1.5, peak * 1.6]).range([height - margin.bottom, margin.top]);
    const view = svg("svg", { class: "plot-svg roofline", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Roofline: each point is a layer; arrows go from point to point, Enter shows details. The table of layers has the same numbers." });
    const axes = svg("g", { "aria-hidden": "true" });
    d3.select(axes).append("g").attr("class", "axis").attr("transform", `translate(0 ${height - margin.bottom})`).call(d3.axisBottom(x).ticks(isNarrow() ? 4 : 8, "~s"));
    d3.select(axes).append("g").attr("class", "axis").attr("transform", `translate(${margin.left} 0)`).call(d3.axisLeft(y).ticks(5, "~s"));
    axes.append(svg("text", { class: "axis-title", x: width - margin.right, y: height - 6, "text-anchor": "end" }, "multiply-adds per byte of DRAM traffic"));
    axes.append(svg("text", { class: "axis-title", x: margin.left + 6, y: margin.top + 2 }, "multiply-adds per cycle"));
    const roofStart = Math.max(low, y.domain()[0] / rate);
    axes.append(svg("path", { class: "roof", d: `M${x(roofStart)} ${y(Math.max(roofStart * rate, y.domain()[0]))}L${x(ridge)} ${y(peak)}L${x(high)} ${y(peak)}` }));
    axes.append(svg("text", { class: "roof-text", x: x(high) - 4, y: y(peak) - 6, "text-anchor": "end" }, "peak of the matrix units"));
    const slope = (Math.atan2(y(peak) - y(Math.max(roofStart * rate, y.domain()[0])), x(ridge) - x(roofStart)) * 180) / Math.PI;
    axes.append(svg("text", { class: "roof-text", transform: `translate(${(x(roofStart) + x(ridge)) / 2} ${(y(Math.max(roofStart * rate, y.domain()[0])) + y(peak)) / 2 - 6}) rotate(${slope})`, "text-anchor": "middle" }, "rate of the DRAM"));
    axes.append(svg("text", { class: "axis-title", x: width - margin.right / 2 + 4, y: height - margin.bottom + 18, "text-anchor": "middle" }, "no DRAM"));
    axes.append(svg("line", { class: "roof-none", x1: width - margin.right + 10, x2: width - margin.right + 10, y1: margin.top, y2: height - margin.bottom }));
    view.append(axes);
    const most = points.reduce((value, point) => Math.max(value, point.cycles), 1);
    const readout = el("p", { class: "readout", "aria-live": "polite" }, "");
    // Names where there is room for them.
    const taken = [];
    const free = (box) => taken.every((other) => box[0] > other[2] || box[2] < other[0] || box[1] > other[3] || box[3] < other[1]);
    const place = (point) => [point.x > 0 ? x(point.x) : width - margin.right / 2 + 4, y(point.y)];
    for (const point of withX.length > 0 && total.x > 0 ? points.concat([total]) : points) {
      const [px, py] = place(point);
      taken.push([px - 6, py - 6, px + 6, py + 6]);
    }
    const label = (point, size) => {
      const text = middle(point.name, isNarrow() ? 14 : 24);
      const [px, py] = place(point);
      const long = 6.5 * text.length;
      for (const [anchor, dx, dy] of [["start", size + 3, 4], ["end", -size - 3, 4], ["middle", 0, -size - 4], ["middle", 0, size + 12]]) {
        const left = px + dx - (anchor === "end" ? long : anchor === "middle" ? long / 2 : 0);
        const box = [left, py + dy - 9, left + long, py + dy + 2];
        if (box[0] < margin.left || box[2] > width - 2 || box[1] < margin.top || box[3] > height - margin.bottom || !free(box)) continue;
        taken.push(box);
        return svg("text", { class: "point-text", x: dx, y: dy, "text-anchor": anchor }, text);
      }
      return null;
    };
    const tell = (point) => {
      const path = point.index === null ? ["total"] : ["stages", point.index, "stats"];
      clear(readout).append(point.name, ": ", num(path.concat(["products_per_cycle"]), "number"), " multiply-adds a cycle, ", num(path.concat(["share_of_peak"]), "percent"), " of the peak; ",
        point.x > 0 ? el("span", {}, num(path.concat(["products_per_dram_byte"]), "number"), " per byte of DRAM traffic") : "no DRAM traffic");
    };
    roofline.points = points.map((point, k) => {
      const [px] = place(point);
      const size = 4 + 6 * Math.sqrt(point.cycles / most);
      const mark = point.x > 0 ? svg("circle", { r: size }) : svg("rect", { x: -size * 0.85, y: -size * 0.85, width: size * 1.7, height: size * 1.7 });
      const node = svg("g", { class: "point", transform: `translate(${px} ${y(point.y)})`, tabindex: k === 0 ? "0" : "-1", role: "button", "data-stage": String(point.index), "aria-label": `${point.name}, ${plain(point.y, "number")} multiply-adds a cycle` }, mark, svg("title", {}, point.name));
      if (k < 40) append(node, [label(point, size)]);
      node.addEventListener("click", () => choose(point.index, true));
      node.addEventListener("pointerenter", () => tell(point));
      node.addEventListener("focus", () => tell(point));
      node.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (step) {
          const next = clamp(k + step, 0, roofline.points.length - 1);
          node.setAttribute("tabindex", "-1");
          roofline.points[next].setAttribute("tabindex", "0");
          roofline.points[next].focus();
          event.preventDefault();
        } else if (event.key === "Enter" || event.key === " ") {
          choose(point.index, true);
          event.preventDefault();
        }
      });
      return node;
    });
    // Large ones first, so that small ones lie on top.
    for (const node of roofline.points) view.append(node);
    if (total.x > 0) {
      const mark = svg("path", { class: "total-mark", d: "M0 -9L9 0L0 9L-9 0z", transform: `translate(${x(total.x)} ${y(total.y)})` }, svg("title", {}, "all layers"));
      mark.addEventListener("pointerenter", () => tell(total));
      view.append(mark);
    }
    roofline.view = view;
    section.append(
      el("div", { class: "frame plot" }, view), readout,
      el("p", { class: "muted" }, "Larger circles take more cycles; squares have no DRAM traffic, the diamond is the whole run. The roof: ", num(["peaks", "products_per_cycle"]), " multiply-adds a cycle, DRAM at ", num(["peaks", "dram_bytes_per_cycle"], "number"), " bytes a cycle.",
        all.length > points.length ? " Of many layers those that take most cycles are shown." : ""),
    );
    tell(total);
  },
  chosen(index) {
    for (const node of roofline.points) node.classList.toggle("chosen", node.dataset.stage === String(index));
  },
  resized(section) {
    this.redraw(section);
  },
});
