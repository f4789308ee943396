// Where the elements of an image are: which units of every level of the chip have some, and how the axes are spread.
const layouts = { select: null, view: null };

function layoutTree(layout, width) {
  const rowHeight = 62;
  const label = isNarrow() ? 0 : 150;
  const top = isNarrow() ? 18 : 4;
  const view = svg("svg", { class: "plot-svg tree", viewBox: `0 0 ${width} ${layout.levels.length * rowHeight + top + 8}`, role: "img", "aria-label": layout.levels.map((level) => `${level.level}: ${level.used.length} of ${level.instances} used`).join(", ") });
  let parent = { x: label + (width - label) / 2, y: null };
  layout.levels.forEach((level, row) => {
    const count = level.instances;
    const shown = Math.min(count, 64);
    const pitch = (width - label - 8) / shown;
    const box = Math.min(pitch - 2, 46);
    const y = top + row * rowHeight + 14;
    const used = new Set(level.used);
    const text = `${level.level}s` + (isNarrow() ? `, ${count} below each` : "");
    view.append(svg("text", { class: "tree-label", x: 2, y: isNarrow() ? y - 6 : y + 14 }, text));
    if (!isNarrow()) view.append(svg("text", { class: "tree-note", x: 2, y: y + 29 }, row === 0 ? "on the chip" : `in each ${layout.levels[row - 1].level}`));
    let first = null;
    for (let k = 0; k < shown; ++k) {
      const cx = label + 4 + pitch * (k + 0.5);
      const isUsed = used.has(k);
      if (parent.y !== null) view.append(svg("path", { class: isUsed ? "branch used" : "branch", d: `M${parent.x} ${parent.y}C${parent.x} ${(parent.y + y) / 2} ${cx} ${(parent.y + y) / 2} ${cx} ${y}` }));
      const node = svg("rect", { class: `unit ${isUsed ? (level.replicated > 1 ? "used copy" : "used") : ""}`, x: cx - box / 2, y, width: Math.max(box, 2), height: 22, rx: 3 }, svg("title", {}, `${level.level} ${k}: ${isUsed ? "has elements" : "nothing"}`));
      view.append(node);
      if (box > 15) view.append(svg("text", { class: isUsed ? "unit-text used" : "unit-text", x: cx, y: y + 15, "text-anchor": "middle" }, isUsed ? String(k) : "\u00b7"));
      if (isUsed && first === null) first = { x: cx, y: y + 22 };
    }
    parent = first || { x: label + 4 + pitch * 0.5, y: y + 22 };
  });
  return view;
}

function drawLayout(index) {
  const box = clear(layouts.view);
  const layout = run().layouts[index];
  if (!layout) return;
  const path = ["layouts", index];
  const rows = layout.levels.map((level, k) =>
    el("tr", {}, el("th", { scope: "row" }, level.level),
      el("td", { class: "n" }, num(path.concat(["levels", k, "instances"]))),
      el("td", {}, level.axes.length > 0 ? level.axes.map((axis, a) => el("span", { class: "axis-part" }, "axis ", num(path.concat(["levels", k, "axes", a, "axis"])), " in ", num(path.concat(["levels", k, "axes", a, "parts"])), " parts")) : "not split"),
      el("td", {}, level.replicated > 1 ? el("span", {}, num(path.concat(["levels", k, "replicated"])), " copies") : "no")));
  const users = run().moves.map((move, k) => [move, k]).filter(([move]) => move.layout === index);
  box.append(
    el("p", { class: "layout-text" }, el("code", {}, layout.text)),
    el("div", { class: "frame plot" }, layoutTree(layout, Math.max(300, Math.min(box.clientWidth || 800, 1100)))),
    el("p", { class: "muted" }, "Filled units with a number have elements, units with a dot none; below a level, one of its units is shown. Elements of ", num(path.concat(["element_bits"])), " bits, ", num(path.concat(["long_words"])), " long words in each PE's stream, padded with ", layout.padding, "."),
    el("div", { class: "scroll" }, el("table", { class: "small" }, el("thead", {}, el("tr", {}, ["level", "instances", "split", "the same in several"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, rows))),
    el("p", {}, "Images with it: ", users.slice(0, 30).map(([move], k) => [k > 0 ? ", " : "", el("strong", {}, move.tensor), move.to !== null ? [" for ", stageLink(move.to)] : " to the host"].flat()), users.length > 30 ? " and more" : ""),
  );
  if (layout.drawing) box.append(el("details", { open: !isNarrow() }, el("summary", {}, "Elements in the first memories"), el("pre", { class: "drawing", tabindex: "0" }, layout.drawing)));
}

function showLayout(index) {
  state.layout = index;
  if (layouts.select) layouts.select.value = String(index);
  drawLayout(index);
  if (isNarrow()) closeDetails();
  by("layouts").scrollIntoView({ behavior: reducedMotion() ? "auto" : "smooth", block: "start" });
  if (layouts.select) layouts.select.focus({ preventScroll: true });
}

parts.push({
  id: "layouts",
  title: "Layouts",
  draw(section) {
    const list = run().layouts;
    layouts.select = null;
    layouts.view = el("div");
    if (list.length === 0) {
      section.append(el("p", {}, "Nothing is on the chip."));
      return;
    }
    const names = new Map();
    run().moves.forEach((move) => {
      if (move.layout !== null && !names.has(move.layout)) names.set(move.layout, move.tensor);
    });
    layouts.select = el("select", { id: "layout-select", onchange: () => { state.layout = Number(layouts.select.value); drawLayout(state.layout); } }, list.map((layout, index) => el("option", { value: String(index) }, shorten(`${names.get(index) || ""}: ${layout.text}`, isNarrow() ? 60 : 130))));
    state.layout = clamp(state.layout, 0, list.length - 1);
    layouts.select.value = String(state.layout);
    section.append(el("div", { class: "bar" }, el("label", { for: "layout-select" }, "layout"), layouts.select), layouts.view);
    drawLayout(state.layout);
  },
  resized() {
    if (layouts.select) drawLayout(state.layout);
  },
});
