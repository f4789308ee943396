// One layer: its numbers, its Moves, the transfers while it runs.
function fact(name, value) {
  return [el("dt", {}, name), el("dd", {}, value)];
}
function shapeText(shape) {
  return "[" + shape.join(", ") + "]";
}
function wayText(move) {
  return move.host_relayout ? move.way + ", the host changes the layout" : move.way;
}

function moveItem(move, index, isIn) {
  const other = isIn ? move.from : move.to;
  const who = other !== null ? stageLink(other) : move.constant ? "constant" : isIn ? "host (input)" : "host (output)";
  const item = el(
    "li",
    { class: "move", "data-move": String(index) },
    el("div", { class: "move-head" }, el("strong", {}, move.tensor), " ", el("span", { class: "muted" }, `${move.type} ${shapeText(move.shape)}`)),
    el("div", {}, isIn ? "from " : "to ", who, el("span", { class: "muted" }, " \u00b7 "), el("span", { class: "way" }, wayText(move))),
  );
  if (move.layout !== null) {
    item.append(
      el("div", { class: "layout-text" }, el("code", {}, run().layouts[move.layout].text)),
      el(
        "div",
        { class: "muted" },
        move.transport, "; ",
        num(["moves", index, "bytes"], "bytes"), " in DRAM, ",
        num(["moves", index, "lw_per_group"]), " LW in each of ",
        num(["moves", index, "groups"]), " groups ",
        el("button", { class: "small-button", type: "button", onclick: () => showLayout(move.layout) }, "draw"),
      ),
    );
  }
  return item;
}

let detailsOpener = null;
function showDetails(index, moveFocus) {
  const panel = clear(by("details"));
  panel.hidden = false;
  document.body.classList.add("has-details");
  if (!panel.contains(document.activeElement) && document.activeElement !== document.body) detailsOpener = document.activeElement;
  const stage = run().stages[index];
  const path = ["stages", index];
  const stats = path.concat(["stats"]);
  const heading = el("h2", { tabindex: "-1", id: "details-title" }, stage.name || "(no name)");
  panel.append(
    el("div", { class: "details-head" }, heading, el("button", { class: "close", type: "button", "aria-label": "Close the details", onclick: closeDetails }, "\u00d7")),
    el("p", { class: "muted" }, `layer ${index}: ${stage.operators.join(" + ") || "no operator"} \u00b7 ${stage.kind} \u00b7 on the ${stage.where}`),
  );
  const list = el("dl", { class: "facts" });
  append(list, [
    fact("cycles", num(stats.concat(["cycles"]))),
    fact("of these waiting", num(stats.concat(["wait_cycles"]))),
    fact("share of the peak", num(stats.concat(["share_of_peak"]), "percent")),
    fact("times its bound", stage.stats.bound_cycles > 0 ? el("span", {}, num(stats.concat(["times_bound"]), "times"), ` (${stage.stats.bound_resource})`) : "\u2013"),
    fact("steps", num(stats.concat(["steps"]))),
    fact("transfers", num(stats.concat(["mvs"]))),
    fact("multiply-adds", num(stats.concat(["products"]))),
    fact("DRAM traffic", num(stats.concat(["dram_bytes"]), "bytes")),
    fact("host link", el("span", {}, num(stats.concat(["link_cycles"])), " cycles")),
  ]);
  if (stage.predicted_cycles !== undefined) append(list, fact("planned cycles", num(path.concat(["predicted_cycles"]))));
  if (stage.error) append(list, fact("largest error", num(path.concat(["error", "max_absolute"]), "error")));
  panel.append(list);
  if (stage.where === "chip") panel.append(causeBar(stage.stats, stats));
  if (stage.kernel) panel.append(el("h3", {}, "Kernel"), el("p", {}, el("code", {}, stage.kernel), stage.tiling ? ": " + stage.tiling : ""));
  if (stage.reason) panel.append(el("h3", {}, "Why it is on the host"), el("p", {}, stage.reason));
  panel.append(el("h3", {}, "Operation"), el("p", { class: "operation" }, stage.operation));

  const moves = run().moves.map((move, k) => [move, k]);
  const into = moves.filter(([move]) => move.to === index);
  const out = moves.filter(([move]) => move.from === index);
  const moveList = (found, isIn, none) => (found.length > 0 ? el("ul", { class: "moves" }, found.slice(0, 200).map(([move, k]) => moveItem(move, k, isIn))) : el("p", { class: "muted" }, none));
  panel.append(
    el("h3", {}, "Moves to it"), moveList(into, true, "none"),
    el("h3", {}, "Moves from it"), moveList(out, false, "none: nothing reads its result"),
  );
  if (stage.transfers && stage.transfers.length > 0) {
    const rows = stage.transfers.map((transfer, k) => {
      const own = path.concat(["transfers", k]);
      return el(
        "tr", {},
        el("th", { scope: "row" }, transfer.tensor || "\u2013"),
        el("td", {}, `${transfer.from} \u2192 ${transfer.to}`),
        el("td", {}, el("code", {}, transfer.instruction)),
        el("td", { class: "n" }, num(own.concat(["count"]))),
        el("td", { class: "n" }, num(own.concat(["lw"]))),
        el("td", { class: "n" }, num(own.concat(["first_cycle"]))),
        el("td", { class: "n" }, num(own.concat(["last_cycle"]))),
      );
    });
    panel.append(
      el("h3", {}, "Transfers issued while it runs"),
      el("p", { class: "muted" }, "Loads for layers behind it are among them."),
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Transfers" },
        el("table", { class: "small" }, el("thead", {}, el("tr", {}, ["tensor", "way", "instruction", "count", "LW", "from cycle", "to cycle"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, rows))),
    );
  }
  say(`Details of layer ${stage.name}`);
  if (moveFocus) heading.focus({ preventScroll: !isNarrow() });
}
function closeDetails() {
  const panel = by("details");
  if (panel.hidden) return false;
  panel.hidden = true;
  document.body.classList.remove("has-details");
  if (detailsOpener && detailsOpener.isConnected) detailsOpener.focus({ preventScroll: true });
  detailsOpener = null;
  return true;
}
