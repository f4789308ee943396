// The page as a whole: which run is shown, the parts one below the other, keys.
const sections = new Map();

function drawPart(part) {
  const section = sections.get(part.id);
  const body = clear(section.querySelector(".part-body"));
  const applies = part.applies ? part.applies() : hasRun();
  section.hidden = by("nav").querySelector(`a[href="#${part.id}"]`).parentElement.hidden = !applies;
  if (!applies) return;
  performance.mark("begin");
  part.draw(body);
  performance.measure(part.id, "begin");
}
function drawAll() {
  state.stage = null;
  closeDetails();
  const r = wholeRun();
  by("title").textContent = r.model || "Kodama report";
  document.title = `${r.model || "run"} \u2013 Kodama report`;
  by("subtitle").textContent = `${r.chip}, ${r.precision} precision` + (r.data_set ? `, ${r.data_set}` : "");
  for (const part of parts) drawPart(part);
}

function choice(text, options, present, action) {
  const select = el("select", { "aria-label": text }, options.map((option, index) => el("option", { value: String(index) }, option)));
  select.value = String(present);
  select.addEventListener("change", () => action(Number(select.value)));
  return el("label", { class: "choice" }, text, " ", select);
}
function drawChoices() {
  const box = clear(by("choices"));
  if (data.files.length > 1) {
    box.append(choice("shown", data.files.map((file, index) => `${"AB"[index]}: ${file.name}`), state.file, (index) => {
      state.file = index;
      state.run = state.program = 0;
      drawChoices();
      drawAll();
    }));
  }
  if (runs().length > 1) {
    box.append(choice("data set", runs().map((each, index) => each.data_set || String(index)), state.run, (index) => {
      state.run = index;
      state.program = 0;
      drawAll();
    }));
  }
}

document.body.append(el("div", { id: "live", class: "unseen", role: "status", "aria-live": "polite" }));
for (const part of parts) {
  const section = el("section", { class: "part", id: part.id, "aria-labelledby": `${part.id}-title` }, el("h2", { id: `${part.id}-title` }, part.title), el("div", { class: "part-body" }));
  sections.set(part.id, section);
  by("main").append(section);
  by("nav").append(el("li", {}, el("a", { href: `#${part.id}` }, part.title)));
  part.redraw = () => drawPart(part);
}
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea");
  if (event.key === "Escape") {
    if (!closeDetails() && isTyping && event.target.value !== "") {
      event.target.value = "";
      event.target.dispatchEvent(new Event("input"));
    }
  } else if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
    layers.input.scrollIntoView({ block: "center" });
    layers.input.focus();
    event.preventDefault();
  }
});
let known = window.innerWidth;
let waiting = null;
window.addEventListener("resize", () => {
  if (window.innerWidth === known) return;
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    known = window.innerWidth;
    for (const part of parts) if (part.resized && !sections.get(part.id).hidden) part.resized();
    if (hasRun()) fitNetwork();
  }, 120);
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (timeline.canvas) drawTimeline();
});
drawChoices();
drawAll();
// The part that is read is marked in the list of parts.
const marks = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const link = by("nav").querySelector(`a[href="#${entry.target.id}"]`);
    if (link) link.classList.toggle("present", entry.isIntersecting);
  }
}, { rootMargin: "-30% 0px -60% 0px" });
for (const section of sections.values()) marks.observe(section);
document.documentElement.dataset.ready = "true";
