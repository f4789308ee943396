// What the run was like, in one look.
const causes = [
  ["steps", "steps that issue", "steps"],
  ["wait", "waiting for transfers", "wait"],
  ["mv_queue", "no room for a transfer", "queue"],
  ["host_link", "instructions not there yet", "fetch"],
  ["hazard", "held for a hazard", "hazard"],
  ["drain", "last transfers", "drain"],
  ["host_input", "host: data to the chip", "in"],
  ["host_output", "host: data from the chip", "out"],
  ["launch", "host: launches", "launch"],
  ["host_compute", "host: its layers", "host"],
];

function card(title, value, ...notes) {
  return el("div", { class: "card" }, el("div", { class: "card-title" }, title), el("div", { class: "card-value" }, value), el("div", { class: "card-note" }, ...notes));
}

function causeBar(stats, path) {
  const total = causes.reduce((sum, [key]) => sum + (stats.cycles_by_cause[key] || 0), 0);
  const bar = el("div", { class: "stack", "aria-hidden": "true" });
  const list = el("ul", { class: "stack-list" });
  causes.forEach(([key, text], index) => {
    const cycles = stats.cycles_by_cause[key] || 0;
    if (cycles <= 0) return;
    const piece = el("span", { class: `piece cause-${index}` });
    piece.style.flexGrow = String(cycles / total);
    if (cycles / total > 0.06) piece.append(String.fromCharCode(65 + index));
    bar.append(piece);
    list.append(
      el("li", {}, el("span", { class: `key cause-${index}`, "aria-hidden": "true" }, String.fromCharCode(65 + index)), el("span", { class: "grow" }, text), num(path.concat(["cycles_by_cause", key]))),
    );
  });
  return el("div", {}, bar, list);
}

parts.push({
  id: "overview",
  title: "Overview",
  draw(section) {
    const r = run();
    const outputs = Object.keys(r.outputs);
    const cards = el(
      "div",
      { class: "cards" },
      card("A run", num(["milliseconds"], "ms"), num(["total", "total_cycles"]), " cycles at ", num(["tree", "clock_hz"], "megahertz"), ", constants on the chip"),
      card("The first run", num(["milliseconds_with_constants"], "ms"), num(["total_with_constants"]), " cycles; sends ", num(["constant_bytes"], "bytes"), " of constants"),
      card("On the chip", num(["total", "cycles"]), "cycles, of which ", num(["total", "wait_cycles"]), " wait for transfers"),
      card("Share of the peak", num(["total", "share_of_peak"], "percent"), num(["total", "products"]), " multiply-adds; the matrix units do ", num(["peaks", "products_per_cycle"]), " a cycle"),
      card("Bound", num(["total", "times_bound"], "times"), "what the problem takes: ", num(["total", "bound_cycles"], "number"), " cycles, by its ", r.total.bound_resource || "nothing"),
      card("DRAM traffic", num(["total", "dram_bytes"], "bytes"), "of a run; the first ", num(["dram_bytes_with_constants"], "bytes")),
      card("The host", num(["total", "host_layers"]), "layers of its own, ", num(["total", "host_relayouts"]), " changes of layout; sends ", num(["total", "bytes_to_chip"], "bytes"), ", fetches ", num(["total", "bytes_from_chip"], "bytes")),
      card("Layers", el("span", {}, plain(r.stages.length)), `of ${r.model}, at ${r.precision} precision on ${r.chip}`),
    );
    section.append(cards);
    section.append(el("h3", {}, "Where the cycles went"), causeBar(r.total, ["total"]));
    const host = r.stages.map((stage, index) => [stage, index]).filter(([stage]) => stage.where === "host");
    if (host.length > 0) {
      section.append(
        el("h3", {}, "Layers on the host"),
        el("ul", { class: "plain" }, host.slice(0, 50).map(([stage, index]) => el("li", {}, stageLink(index), " ", stage.operators.join(", "), stage.reason ? `: ${stage.reason}` : ""))),
      );
    }
    if (outputs.length > 0) {
      const body = el("tbody");
      for (const name of outputs) {
        body.append(
          el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, num(["outputs", name, "max_absolute"], "error")), el("td", {}, num(["outputs", name, "max_relative"], "error")), el("td", {}, num(["outputs", name, "unequal"]))),
        );
      }
      section.append(
        el("h3", {}, "Outputs beside the CPU reference"),
        el("div", { class: "scroll" }, el("table", { class: "small" }, el("thead", {}, el("tr", {}, ["output", "largest error", "over largest magnitude", "elements that differ"].map((text) => el("th", { scope: "col" }, text)))), body)),
      );
    }
  },
});
