// The ledger as an instrument: filters, search, order, and claims that an address opens. Without it the table stays whole.
(() => {
  "use strict";
  const table = document.getElementById("ledger");
  if (!table) return;
  const rows = [...table.tBodies].map((row, place) => ({ row, place, text: row.textContent.toLowerCase() }));
  const data = (name) => [...new Set(rows.map(({ row }) => row.dataset[name]))];

  const element = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  const labelled = (name, control) => element("label", {}, element("span", { textContent: name }), control);
  const choice = (name, options) => {
    const select = element("select", { name });
    for (const [value, text] of options) select.append(element("option", { value, textContent: text }));
    return select;
  };
  const any = (name, shown = (value) => value) =>
    choice(name, [["", "all"], ...data(name).map((value) => [value, shown(value)])]);

  const papers = { P: "linear attention", S: "softmax attention", new: "new here" };
  const search = element("input", { type: "search", name: "text" });
  const order = choice("order", [
    ["place", "as in the book"], ["id", "by name"], ["verdict", "by verdict"], ["margin", "smallest margin first"],
    ["checks", "most checks first"],
  ]);
  const count = element("output", {});
  const filters = { verdict: any("verdict"), chapter: any("chapter"), paper: any("paper", (value) => papers[value]) };
  const form = element(
    "form", { className: "ledger-tools" },
    labelled("Search", search), labelled("Verdict", filters.verdict), labelled("Chapter", filters.chapter),
    labelled("Paper", filters.paper), labelled("Order", order), count,
  );
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", "The claims");

  const orders = {
    place: (a, b) => a.place - b.place,
    id: (a, b) => a.row.id.localeCompare(b.row.id),
    verdict: (a, b) => a.row.dataset.verdict.localeCompare(b.row.dataset.verdict) || a.place - b.place,
    margin: (a, b) => a.row.dataset.margin - b.row.dataset.margin || a.place - b.place,
    checks: (a, b) => b.row.dataset.checks - a.row.dataset.checks || a.place - b.place,
  };

  const refresh = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { row, text } of rows) {
      const fits = Object.entries(filters).every(([name, { value }]) => !value || row.dataset[name] === value);
      row.hidden = !(fits && words.every((word) => text.includes(word)));
      shown += !row.hidden;
    }
    table.append(...[...rows].sort(orders[order.value]).map(({ row }) => row));
    count.textContent = `${shown} of ${rows.length} claims`;
  };

  // A row that an address names is seen, whatever the filters say, and open.
  const open = () => {
    const row = rows.find(({ row }) => `#${row.id}` === location.hash)?.row;
    if (!row) return;
    form.reset();
    refresh();
    row.querySelector("details")?.setAttribute("open", "");
    row.scrollIntoView();
  };

  form.addEventListener("input", refresh);
  form.addEventListener("submit", (event) => event.preventDefault());
  table.before(form);
  refresh();
  open();
  window.addEventListener("hashchange", open);
})();
