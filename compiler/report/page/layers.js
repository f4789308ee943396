// The table of layers. Rows outside of what is seen are not made: tens of thousands of them are no more than some.
const kRow = 34;
const layers = { rows: [], sort: { key: "index", down: false }, filter: "", scroll: null, body: null, focus: 0, input: null, most: 0 };
const columns = [
  { key: "index", title: "#", number: true, value: (stage, index) => index, cell: (stage, index) => String(index) },
  { key: "name", title: "layer", value: (stage) => stage.name, cell: (stage) => el("span", { class: "layer-name", title: stage.name }, isNarrow() ? middle(stage.name, 17) || "(no name)" : stage.name || "(no name)"), wide: true },
  { key: "operators", title: "operators", value: (stage) => stage.operators.join("+"), cell: (stage) => shorten(stage.operators.join("+") || "\u2013", 30), wide: true, hide: 2 },
  { key: "kind", title: "kind", value: (stage) => stage.kind, cell: (stage) => stage.kind, hide: 2 },
  { key: "where", title: "where", value: (stage) => stage.where, cell: (stage) => stage.where, hide: 2 },
  { key: "output", title: "output", value: (stage) => (stage.shapes[0] || []).reduce((a, b) => a * b, 1), cell: (stage) => (stage.shapes[0] ? shapeText(stage.shapes[0]) : "\u2013"), hide: 2 },
  { key: "cycles", title: "cycles", number: true, path: ["stats", "cycles"] },
  { key: "bar", title: "", value: (stage) => stage.stats.cycles, cell: (stage) => { const bar = el("span", { class: "rowbar" }); bar.style.width = `${layers.most > 0 ? (100 * stage.stats.cycles) / layers.most : 0}%`; return bar; }, bar: true, hide: 1 },
  { key: "wait", title: "waiting", number: true, path: ["stats", "wait_cycles"] },
  { key: "peak", title: "of peak", number: true, path: ["stats", "share_of_peak"], format: "percent", dash: (stage) => !(stage.stats.products > 0), hide: 1 },
  { key: "bound", title: "times bound", number: true, path: ["stats", "times_bound"], format: "times", dash: (stage) => !(stage.stats.bound_cycles > 0), hide: 1 },
  { key: "steps", title: "steps", number: true, path: ["stats", "steps"], hide: 2 },
  { key: "dram", title: "DRAM", number: true, path: ["stats", "dram_bytes"], format: "bytes", hide: 2 },
  { key: "link", title: "host link", number: true, path: ["stats", "link_cycles"], hide: 2 },
  { key: "error", title: "error", number: true, path: ["error", "max_absolute"], format: "error", hide: 2 },
];
const columnValue = (column, stage, index) => (column.path ? at(stage, column.path) : column.value(stage, index));

function sortRows() {
  const stages = run().stages;
  const wanted = layers.filter.toLowerCase();
  const column = columns.find((each) => each.key === layers.sort.key);
  const hit = (stage) => wanted === "" || stage.name.toLowerCase().includes(wanted) || stage.kind.toLowerCase().includes(wanted) || stage.where === wanted || stage.operators.some((op) => op.toLowerCase().includes(wanted));
  layers.rows = stages.map((_, index) => index).filter((index) => hit(stages[index]));
  const direction = layers.sort.down ? -1 : 1;
  const values = new Map(layers.rows.map((index) => [index, columnValue(column, stages[index], index)]));
  layers.rows.sort((a, b) => {
    const x = values.get(a);
    const y = values.get(b);
    if (x === y) return a - b;
    if (x === undefined || x === null) return 1;
    if (y === undefined || y === null) return -1;
    return (x < y ? -1 : 1) * direction;
  });
  layers.focus = clamp(layers.focus, 0, Math.max(0, layers.rows.length - 1));
}

function layerRow(position) {
  const index = layers.rows[position];
  const stage = run().stages[index];
  const row = el("tr", { tabindex: position === layers.focus ? "0" : "-1", "data-stage": String(index), "data-position": String(position), "aria-rowindex": String(position + 2), class: index === state.stage ? "chosen" : null, "aria-selected": index === state.stage ? "true" : "false" });
  for (const column of columns) {
    const cell = el(column.key === "name" ? "th" : "td", { class: `${column.number ? "n" : ""} hide-${column.hide || 0} ${column.bar ? "bar-cell" : ""}`, scope: column.key === "name" ? "row" : null });
    if (column.path) {
      cell.append(column.dash && column.dash(stage) ? el("span", { class: "none" }, "\u2013") : num(["stages", index].concat(column.path), column.format));
    } else {
      cell.append(column.cell(stage, index));
    }
    row.append(cell);
  }
  return row;
}

function drawRows() {
  const { scroll, body } = layers;
  const count = layers.rows.length;
  const hadFocus = body.contains(document.activeElement);
  const seen = Math.ceil(scroll.clientHeight / kRow) + 1;
  const first = clamp(Math.floor(scroll.scrollTop / kRow) - 8, 0, Math.max(0, count - 1));
  const last = Math.min(count, first + seen + 16);
  clear(body);
  const space = (height) => {
    const row = el("tr", { class: "space", "aria-hidden": "true" }, el("td", { colspan: String(columns.length) }));
    row.firstChild.style.height = `${height}px`;
    return row;
  };
  if (first > 0) body.append(space(first * kRow));
  for (let position = first; position < last; ++position) body.append(layerRow(position));
  if (last < count) body.append(space((count - last) * kRow));
  if (hadFocus) {
    const found = body.querySelector(`[data-position="${layers.focus}"]`);
    if (found) found.focus({ preventScroll: true });
  }
}

function focusRow(position) {
  layers.focus = clamp(position, 0, layers.rows.length - 1);
  const top = layers.focus * kRow;
  const { scroll } = layers;
  const head = kRow;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  if (top + kRow > scroll.scrollTop + scroll.clientHeight - head) scroll.scrollTop = top + kRow - scroll.clientHeight + head;
  drawRows();
  const found = layers.body.querySelector(`[data-position="${layers.focus}"]`);
  if (found) found.focus({ preventScroll: true });
}

parts.push({
  id: "layers",
  title: "Layers",
  draw(section) {
    layers.most = run().stages.reduce((most, stage) => Math.max(most, stage.stats.cycles || 0), 0);
    layers.focus = 0;
    layers.filter = "";
    const count = el("span", { class: "muted", "aria-live": "polite" });
    const heads = columns.map((column) => {
      if (column.bar) return el("th", { class: `hide-${column.hide || 0}`, "aria-hidden": "true" });
      const button = el("button", { type: "button", class: "sort" }, column.title);
      const head = el("th", { scope: "col", class: `${column.number ? "n" : ""} hide-${column.hide || 0}`, "aria-sort": "none" }, button);
      button.addEventListener("click", () => {
        const down = layers.sort.key === column.key ? !layers.sort.down : Boolean(column.number && column.key !== "index");
        layers.sort = { key: column.key, down };
        update();
      });
      head.column = column;
      return head;
    });
    layers.body = el("tbody");
    layers.scroll = el("div", { class: "layers-scroll", role: "region", "aria-label": "Table of layers" },
      el("table", { class: "layers", role: "grid", "aria-rowcount": String(run().stages.length + 1) }, el("thead", {}, el("tr", {}, heads)), layers.body));
    const update = () => {
      sortRows();
      for (const head of heads) {
        if (!head.column) continue;
        const isSorted = head.column.key === layers.sort.key;
        head.setAttribute("aria-sort", isSorted ? (layers.sort.down ? "descending" : "ascending") : "none");
      }
      count.textContent = layers.rows.length === run().stages.length ? `${plain(layers.rows.length)} layers` : `${plain(layers.rows.length)} of ${plain(run().stages.length)} layers`;
      layers.scroll.scrollTop = 0;
      drawRows();
    };
    layers.input = el("input", { type: "search", id: "filter", placeholder: "name, operator, kind, host \u2026", "aria-label": "Find layers", "aria-keyshortcuts": "/" });
    layers.input.addEventListener("input", () => {
      layers.filter = layers.input.value.trim();
      update();
    });
    layers.input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") {
        if (layers.rows.length > 0) focusRow(0);
        event.preventDefault();
      }
    });
    layers.scroll.addEventListener("scroll", () => requestAnimationFrame(drawRows), { passive: true });
    layers.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-stage]");
      if (!row) return;
      layers.focus = Number(row.dataset.position);
      row.focus({ preventScroll: true });
      choose(Number(row.dataset.stage), isNarrow());
    });
    layers.body.addEventListener("keydown", (event) => {
      const row = event.target.closest("tr[data-stage]");
      if (!row) return;
      const page = Math.max(1, Math.floor(layers.scroll.clientHeight / kRow) - 2);
      const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
      if (steps[event.key]) {
        focusRow(layers.focus + steps[event.key]);
      } else if (event.key === "Home") {
        focusRow(0);
      } else if (event.key === "End") {
        focusRow(layers.rows.length - 1);
      } else if (event.key === "Enter" || event.key === " ") {
        choose(Number(row.dataset.stage), true);
      } else {
        return;
      }
      event.preventDefault();
    });
    section.append(el("div", { class: "bar" }, layers.input, count), layers.scroll);
    layers.scroll.style.maxHeight = `${Math.min(run().stages.length + 1, 16) * kRow + 22}px`;
    update();
  },
  chosen() {
    drawRows();
  },
});
