// Two runs, layer by layer.
if (data.comparison) {
  const state2 = { sort: "order", filter: "" };
  const rootPath = ["comparison"];
  const cnum = (path, format) => numOf(rootPath, data.comparison, path, format);
  const verdict = (row) => (row.a === null ? "only in B" : row.b === null ? "only in A" : row.difference < 0 ? "faster" : row.difference > 0 ? "slower" : "the same");
  parts.push({
    id: "comparison",
    title: "Comparison",
    draw(section) {
      const names = data.files.map((file) => file.name);
      const head = (key, text) =>
        el("div", { class: "card" }, el("div", { class: "card-title" }, text), el("div", { class: "card-value" }, cnum(["total", key, "difference"], "signed")), el("div", { class: "card-note" }, "A ", cnum(["total", key, "a"]), ", B ", cnum(["total", key, "b"]), ", B is ", cnum(["total", key, "ratio"], "times"), " A"));
      section.append(
        el("p", {}, el("strong", {}, "A"), ` ${names[0]}: ${data.files[0].runs[0].chip}, ${data.files[0].runs[0].precision}; `, el("strong", {}, "B"), ` ${names[1]}: ${data.files[1].runs[0].chip}, ${data.files[1].runs[0].precision}`),
        el("div", { class: "cards" }, head("cycles", "Cycles on the chip"), head("total_cycles", "Cycles of a run")),
      );
      const rows = data.comparison.layers.map((row, index) => ({ row, index }));
      const most = rows.reduce((value, { row }) => Math.max(value, Math.abs(row.difference || 0)), 1);
      const body = el("tbody");
      const limit = 400;
      const count = el("span", { class: "muted", "aria-live": "polite" });
      const draw = () => {
        const wanted = state2.filter.toLowerCase();
        const found = rows.filter(({ row }) => wanted === "" || row.name.toLowerCase().includes(wanted) || verdict(row).includes(wanted));
        if (state2.sort === "difference") found.sort((x, y) => Math.abs(y.row.difference || 0) - Math.abs(x.row.difference || 0) || x.index - y.index);
        clear(body);
        for (const { row, index } of found.slice(0, limit)) {
          const path = ["layers", index];
          const bar = el("span", { class: `difference ${row.difference > 0 ? "slower" : "faster"}` });
          bar.style.width = `${(50 * Math.abs(row.difference || 0)) / most}%`;
          bar.style.marginLeft = row.difference > 0 ? "50%" : `${50 - (50 * Math.abs(row.difference || 0)) / most}%`;
          body.append(
            el("tr", { "data-row": String(index) }, el("th", { scope: "row" }, row.name),
              el("td", { class: "n" }, cnum(path.concat(["a"]))), el("td", { class: "n" }, cnum(path.concat(["b"]))),
              el("td", { class: "n" }, cnum(path.concat(["difference"]), "signed")), el("td", { class: "n hide-1" }, cnum(path.concat(["ratio"]), "times")),
              el("td", { class: "hide-1" }, verdict(row)), el("td", { class: "bar-cell hide-1" }, row.difference ? bar : null)),
          );
        }
        count.textContent = found.length > limit ? `the first of ${plain(found.length)} layers` : `${plain(found.length)} layers`;
      };
      const filter = el("input", { type: "search", placeholder: "name, faster, slower, only in \u2026", "aria-label": "Find layers in the comparison" });
      filter.addEventListener("input", () => {
        state2.filter = filter.value.trim();
        draw();
      });
      const order = el("select", { id: "comparison-order", onchange: () => { state2.sort = order.value; draw(); } }, el("option", { value: "order" }, "as they run"), el("option", { value: "difference" }, "largest difference first"));
      section.append(
        el("div", { class: "bar" }, filter, el("label", { for: "comparison-order" }, "order"), order, count),
        el("div", { class: "scroll tall" }, el("table", { class: "small comparison" }, el("thead", {}, el("tr", {}, ["layer", "A", "B", "B \u2212 A", "B / A", "", ""].map((text, k) => el("th", { scope: "col", class: `${k >= 1 && k <= 4 ? "n" : ""} ${k >= 4 ? "hide-1" : ""}` }, text)))), body)),
      );
      draw();
    },
  });
  parts.unshift(parts.pop());
}
