// Slots, stalls and transfer engines over the cycles of the run, under bands for the layers.
const timeline = { scale: null, canvas: null, zoom: null, search: "", cursor: null, rows: [] };
const kBand = 34;
const kTrack = 26;
const kAxis = 22;

function trackLabelWidth() {
  return isNarrow() ? 74 : 150;
}
function trackName(track) {
  return isNarrow() ? track.name.replace("transfers, group", "MV") : track.name;
}

/// What is at a cycle, as text.
function timelineText(cycle) {
  const t = run().timeline;
  const band = t.layers.find(([, begin, end]) => cycle >= begin && cycle < end);
  const bin = Math.floor(cycle / t.bin_cycles);
  const texts = [`cycle ${plain(Math.floor(cycle))}`, band ? run().stages[band[0]].name : "no layer"];
  for (const track of t.tracks) {
    const found = track.runs.find(([first, count]) => bin >= first && bin < first + count);
    if (found) texts.push(`${track.name}: ${t.names[found[3]]}`);
  }
  return texts.join(" \u00b7 ");
}

function drawTimeline() {
  const t = run().timeline;
  const canvas = timeline.canvas;
  const width = canvas.clientWidth;
  const label = trackLabelWidth();
  const height = kBand + t.tracks.length * kTrack + kAxis;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.clearRect(0, 0, width, height);
  c.font = "12px system-ui, sans-serif";
  c.textBaseline = "middle";
  const x = timeline.scale;
  const style = getComputedStyle(document.documentElement);
  const colours = new Map();
  const css = (name) => {
    if (!colours.has(name)) colours.set(name, style.getPropertyValue(name).trim());
    return colours.get(name);
  };
  const ink = css("--ink");
  const muted = css("--muted");
  const wanted = timeline.search.toLowerCase();
  const nameHit = t.names.map((name) => wanted !== "" && name.toLowerCase().includes(wanted));

  c.save();
  c.beginPath();
  c.rect(label, 0, width - label, height);
  c.clip();
  t.layers.forEach(([stage, begin, end], k) => {
    const from = x(begin);
    const to = x(end);
    if (to < label || from > width) return;
    const name = run().stages[stage].name;
    const hit = wanted !== "" && name.toLowerCase().includes(wanted);
    c.fillStyle = css(hit ? "--hit" : k % 2 === 0 ? "--band-a" : "--band-b");
    c.fillRect(from, 0, Math.max(to - from, 0.5), height - kAxis);
    if (stage === state.stage) {
      c.strokeStyle = css("--accent");
      c.lineWidth = 2;
      c.strokeRect(from + 1, 1, Math.max(to - from - 2, 1), height - kAxis - 2);
    }
    if (to - from > 40) {
      c.save();
      c.beginPath();
      c.rect(from, 0, to - from, kBand);
      c.clip();
      c.fillStyle = ink;
      const start = Math.max(from, label) + 4;
      c.fillText(to - from > 170 ? name : middle(name, Math.max(6, Math.floor((to - from) / 7))), start, 11);
      c.fillStyle = muted;
      c.fillText(plain(run().stages[stage].stats.cycles) + (end - begin > 0 ? " cycles" : ""), start, 25);
      c.restore();
    }
  });
  t.tracks.forEach((track, row) => {
    const top = kBand + row * kTrack;
    c.fillStyle = css("--line");
    c.fillRect(label, top + kTrack - 1, width - label, 1);
    for (const [first, count, busy, name] of track.runs) {
      const from = x(first * t.bin_cycles);
      const to = x(Math.min((first + count) * t.bin_cycles, t.cycles));
      if (to < label || from > width) continue;
      const h = Math.max(2, (kTrack - 5) * Math.min(1, busy / t.bin_cycles));
      const wide = Math.max(to - from, 0.75);
      c.fillStyle = css(nameHit[name] ? "--hit-strong" : `--track-${track.kind}`);
      c.fillRect(from, top + kTrack - 2 - h, wide, h);
      if (track.kind === "stall" && wide > 6) {
        c.strokeStyle = css("--panel");
        c.lineWidth = 1;
        c.beginPath();
        for (let s = from + 4; s < to; s += 6) {
          c.moveTo(s, top + kTrack - 2);
          c.lineTo(Math.min(s + h, to), top + kTrack - 2 - Math.min(h, to - s));
        }
        c.stroke();
      }
      if (wide > 48) {
        c.save();
        c.beginPath();
        c.rect(from, top, wide, kTrack);
        c.clip();
        c.fillStyle = css("--on-track");
        c.fillText(t.names[name], Math.max(from, label) + 4, top + kTrack / 2 + (h < 14 ? -2 : 1));
        c.restore();
      }
    }
  });
  if (timeline.cursor !== null) {
    c.fillStyle = css("--accent");
    c.fillRect(x(timeline.cursor) - 0.5, 0, 1, height - kAxis);
  }
  c.fillStyle = muted;
  for (const tick of x.ticks(isNarrow() ? 4 : 9)) {
    c.fillRect(x(tick), height - kAxis, 1, 5);
    if (x(tick) + 3 + c.measureText(plain(tick)).width < width) c.fillText(plain(tick), x(tick) + 3, height - 8);
  }
  c.restore();
  c.fillStyle = ink;
  c.fillText("layers", 2, kBand / 2);
  t.tracks.forEach((track, row) => c.fillText(trackName(track), 2, kBand + row * kTrack + kTrack / 2));
}

parts.push({
  id: "timeline",
  title: "Timeline",
  draw(section) {
    const t = run().timeline;
    timeline.canvas = null;
    if (!t) {
      section.append(el("p", {}, "This run was not traced. ", el("code", {}, "kodama run MODEL --report PAGE.html --json RUN.json"), " traces it."));
      return;
    }
    const label = trackLabelWidth; // changes with the width of the window
    const canvas = el("canvas", { class: "timeline", tabindex: "0", role: "img", "aria-label": "Timeline of the slots, stalls and transfer engines. Arrows move a cursor, plus and minus zoom, 0 shows all, Enter opens the layer at the cursor. The table below has the same in numbers." });
    canvas.style.height = `${kBand + t.tracks.length * kTrack + kAxis}px`;
    const readout = el("p", { class: "readout", "aria-live": "polite" }, "Point at the timeline, or move with the arrow keys.");
    const search = el("input", { type: "search", placeholder: "layer, tensor or instruction", "aria-label": "Mark in the timeline" });
    timeline.canvas = canvas;
    timeline.cursor = null;
    timeline.search = "";
    const base = () => d3.scaleLinear().domain([0, Math.max(t.cycles, 1)]).range([0, Math.max(canvas.clientWidth - label(), 10)]);
    timeline.zoom = d3.zoom().scaleExtent([1, Math.max(1, t.cycles / 40)]);
    const apply = () => {
      const transform = d3.zoomTransform(canvas);
      const inner = base();
      const shown = d3.zoomIdentity.translate(transform.x, 0).scale(transform.k).rescaleX(inner);
      timeline.scale = d3.scaleLinear().domain(shown.domain()).range([label(), canvas.clientWidth]);
      drawTimeline();
    };
    timeline.zoom.on("zoom", apply);
    timeline.zoom.filter(() => !d3.event.button && (d3.event.type !== "wheel" || d3.event.ctrlKey || d3.event.metaKey));
    const limits = () => {
      const wide = Math.max(canvas.clientWidth - label(), 10);
      timeline.zoom.extent([[0, 0], [wide, 10]]).translateExtent([[0, 0], [wide, 10]]);
    };
    const select = d3.select(canvas);
    const zoomBy = (factor) => select.call(timeline.zoom.scaleBy, factor);
    const show = () => select.call(timeline.zoom.transform, d3.zoomIdentity);
    timeline.window = (from, to) => {
      const wide = Math.max(canvas.clientWidth - label(), 10);
      const k = clamp(t.cycles / Math.max(to - from, 1), 1, Math.max(1, t.cycles / 40));
      select.call(timeline.zoom.transform, d3.zoomIdentity.translate((-from / t.cycles) * wide * k, 0).scale(k));
    };
    const cycleAt = (event) => timeline.scale.invert(event.clientX - canvas.getBoundingClientRect().left);
    canvas.addEventListener("pointermove", (event) => {
      const cycle = cycleAt(event);
      if (cycle >= 0 && cycle < t.cycles) readout.textContent = timelineText(cycle);
    });
    canvas.addEventListener("click", (event) => {
      const cycle = cycleAt(event);
      const band = t.layers.find(([, begin, end]) => cycle >= begin && cycle < end);
      if (band) choose(band[0], false);
    });
    canvas.addEventListener("keydown", (event) => {
      const [from, to] = timeline.scale.domain();
      if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
        const step = ((to - from) / 40) * (event.key === "ArrowRight" ? 1 : -1);
        timeline.cursor = clamp((timeline.cursor === null ? from : timeline.cursor) + step, 0, t.cycles - 1);
        if (timeline.cursor > to || timeline.cursor < from) timeline.window(clamp(timeline.cursor - (to - from) / 2, 0, t.cycles), clamp(timeline.cursor + (to - from) / 2, 1, t.cycles));
        readout.textContent = timelineText(timeline.cursor);
        drawTimeline();
      } else if (event.key === "+" || event.key === "=") {
        const middle = timeline.cursor === null ? (from + to) / 2 : timeline.cursor;
        timeline.window(Math.max(0, middle - (to - from) / 4), Math.min(t.cycles, middle + (to - from) / 4));
      } else if (event.key === "-") {
        zoomBy(0.5);
      } else if (event.key === "0") {
        show();
      } else if (event.key === "Enter" && timeline.cursor !== null) {
        const band = t.layers.find(([, begin, end]) => timeline.cursor >= begin && timeline.cursor < end);
        if (band) choose(band[0], true);
      } else {
        return;
      }
      event.preventDefault();
    });
    search.addEventListener("input", () => {
      timeline.search = search.value.trim();
      const wanted = timeline.search.toLowerCase();
      const found = wanted === "" ? [] : t.layers.filter(([stage]) => run().stages[stage].name.toLowerCase().includes(wanted));
      const names = wanted === "" ? 0 : t.names.filter((name) => name.toLowerCase().includes(wanted)).length;
      readout.textContent = wanted === "" ? "" : found.length > 0 ? `${run().stages[found[0][0]].name} and its like are marked; Enter goes there` : names > 0 ? "marked where it is busy" : "nothing has that in its name";
      drawTimeline();
    });
    search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      const wanted = search.value.trim().toLowerCase();
      const found = t.layers.find(([stage]) => run().stages[stage].name.toLowerCase().includes(wanted));
      if (wanted === "" || !found) return;
      const around = Math.max(found[2] - found[1], 40) * 0.15;
      timeline.window(Math.max(0, found[1] - around), Math.min(t.cycles, found[2] + around));
    });
    const button = (text, name, action) => el("button", { type: "button", class: "tool", "aria-label": name, onclick: action }, text);
    const rows = t.tracks.map((track, k) =>
      el("tr", {}, el("th", { scope: "row" }, track.name), el("td", {}, { stall: "held", slot: "slot of a step", engine: "transfer engine" }[track.kind] || track.kind), el("td", { class: "n" }, num(["timeline", "tracks", k, "busy_cycles"]))));
    section.append(
      el("div", { class: "bar" }, search, button("+", "Zoom in", () => zoomBy(2)), button("\u2212", "Zoom out", () => zoomBy(0.5)), button("all", "The whole run", show)),
      el("div", { class: "frame plot" }, canvas), readout,
      el("p", { class: "muted" },
        "Heights are the share of ", num(["timeline", "bin_cycles"]), " cycles in which a slot is used, the chip is held (hatched), or an engine has a transfer under way; ",
        num(["timeline", "cycles"]), " cycles in all. Layers of the host take no part of it.",
        t.truncated ? " The trace's limit was reached: what comes later is missing (--trace-limit)." : ""),
      el("details", {}, el("summary", {}, "Busy cycles"), el("div", { class: "scroll" }, el("table", { class: "small" }, el("thead", {}, el("tr", {}, ["track", "what", "busy cycles"].map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, rows)))),
    );
    limits();
    select.call(timeline.zoom).on("dblclick.zoom", null);
    timeline.refresh = () => {
      limits();
      show();
    };
    apply();
  },
  chosen() {
    if (timeline.canvas) drawTimeline();
  },
  resized() {
    if (timeline.canvas) timeline.refresh();
  },
});
