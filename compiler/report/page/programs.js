// A model that is compiled while it runs: its parts and programs, of which one is chosen. The other parts of the page are
// about that one.
const partPath = (path) => ["files", state.file, "runs", state.run].concat(path);
const numOfWhole = (path, format) => numOf(partPath([]), wholeRun(), path, format);

function programLink(index) {
  const program = wholeRun().programs[index];
  const region = wholeRun().regions[program.region];
  const isChosen = index === state.program;
  return el("button", { class: "link", type: "button", "data-program": String(index), "aria-pressed": String(isChosen), onclick: () => chooseProgram(index) }, region.name || "(no name)");
}
function chooseProgram(index) {
  state.program = index;
  drawAll();
  say(`program ${index + 1} of ${wholeRun().programs.length}`);
  const found = sections.get("programs").querySelector(`[data-program="${index}"]`);
  if (found) found.focus({ preventScroll: true });
}

function smallTable(heads, rows) {
  return el("div", { class: "scroll" }, el("table", { class: "small" }, el("thead", {}, el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, rows)));
}

parts.push({
  id: "programs",
  title: "Parts and programs",
  applies: () => Boolean(wholeRun().programs),
  draw(section) {
    const r = wholeRun();
    section.append(
      el("p", {}, `Compiled in parts while it runs: ${r.open_reason}.`),
      el(
        "div",
        { class: "cards" },
        card("A run", numOfWhole(["milliseconds"], "ms"), numOfWhole(["total", "cycles"]), " cycles, constants on the chip; ", numOfWhole(["total", "preload_cycles"]), " once, for ", numOfWhole(["total", "preload_bytes"], "bytes"), " of constants"),
        card("On the chip", numOfWhole(["total", "chip_cycles"]), "cycles of programs; the host's layers and stages take ", numOfWhole(["total", "host_cycles"])),
        card("Programs", numOfWhole(["total", "runs"]), "runs of parts: ", numOfWhole(["total", "compiles"]), " programs compiled, ", numOfWhole(["total", "disk_hits"]), " read from disk, ", numOfWhole(["total", "hits"]), " runs of such that were in memory"),
        card("Kept", numOfWhole(["cached_programs"]), "programs; ", numOfWhole(["dropped_programs"]), " were dropped"),
        card("The host link", numOfWhole(["total", "link_bytes"], "bytes"), numOfWhole(["total", "bytes_to_chip"], "bytes"), " to the chip, ", numOfWhole(["total", "bytes_from_chip"], "bytes"), " from it"),
      ),
      el("h3", {}, "Programs that ran"),
      smallTable(
        ["program", "inputs", "from", "runs", "cycles of all", "chip cycles of all", "of the last"],
        r.programs.map((program, index) =>
          el(
            "tr",
            { class: index === state.program ? "chosen" : null },
            el("th", { scope: "row" }, programLink(index)),
            el("td", {}, program.inputs.map((input) => `${input.name} ${shapeText(input.shape)}`).join(", ") || "\u2013"),
            el("td", {}, program.source),
            el("td", { class: "n" }, numOfWhole(["programs", index, "runs"])),
            el("td", { class: "n" }, numOfWhole(["programs", index, "cycles"])),
            el("td", { class: "n" }, numOfWhole(["programs", index, "chip_cycles"])),
            el("td", { class: "n" }, numOfWhole(["programs", index, "run", "total", "total_cycles"])),
          ),
        ),
      ),
      el("h3", {}, "Parts of the model"),
      smallTable(
        ["part", "operators", "where", "runs", "compiled", "from disk", "in memory", "chip cycles", "host cycles", "link"],
        r.regions.map((region, index) =>
          el(
            "tr",
            {},
            el("th", { scope: "row" }, region.name || "(no name)", region.reasons.length > 0 ? el("div", { class: "muted" }, shorten(region.reasons.join("; "), 200)) : null),
            el("td", {}, shorten(region.operators.join(", "), 80)),
            el("td", {}, region.where),
            ["runs", "compiles", "disk_hits", "hits", "chip_cycles", "host_cycles"].map((key) => el("td", { class: "n" }, numOfWhole(["regions", index, key]))),
            el("td", { class: "n" }, numOfWhole(["regions", index, "link_bytes"], "bytes")),
          ),
        ),
      ),
    );
    if (r.comparisons.length > 0) {
      section.append(
        el("h3", {}, "Outputs"),
        smallTable(
          ["output", "beside", "largest error", "over largest magnitude", ""],
          r.comparisons.map((each, index) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, each.output),
              el("td", {}, each.against),
              el("td", {}, numOfWhole(["comparisons", index, "max_absolute"], "error")),
              el("td", {}, numOfWhole(["comparisons", index, "max_relative"], "error")),
              el("td", {}, each.ok ? "ok" : "out of tolerance"),
            ),
          ),
        ),
      );
    }
    if (r.programs.length > 0) {
      const program = r.programs[state.program];
      section.append(el("p", { class: "muted" }, `What follows is of the last run of program ${state.program + 1}, ${r.regions[program.region].name}.`));
    }
  },
});
