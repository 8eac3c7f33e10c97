// The ledger's filters: the counts of its tally, and a search. An address opens its row. Without this script the tables stay whole.
(() => {
  "use strict";
  const ledger = document.getElementById("ledger");
  const form = document.querySelector("form.ledger-tools");
  if (!ledger || !form) return;
  const tables = [...ledger.querySelectorAll("table.ledger")];
  const rows = tables.flatMap((table) => [...table.tBodies]).map((row) => ({ row, text: row.textContent.toLowerCase() }));
  const counts = [...document.querySelectorAll(".ledger-tally a[data-source]")];
  const [search] = form.elements;
  let chosen;

  const refresh = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = Object.entries(chosen?.dataset ?? {});
    for (const { row, text } of rows) {
      const fits = wanted.every(([name, value]) => row.dataset[name] === value);
      row.hidden = !(fits && words.every((word) => text.includes(word)));
    }
    for (const table of tables) table.hidden = [...table.tBodies].every((row) => row.hidden);
    for (const link of counts) link.ariaCurrent = link === chosen ? "true" : null;
    form.querySelector("output").textContent = `${rows.filter(({ row }) => !row.hidden).length} of ${rows.length} claims`;
  };
  const choose = (link) => {
    chosen = link;
    search.value = "";
    refresh();
  };
  // A row that an address names is seen, whatever the filters say, and open.
  const open = () => {
    const found = rows.find(({ row }) => `#${row.id}` === location.hash)?.row;
    if (!found) return;
    choose();
    found.querySelector("details").open = true;
    found.scrollIntoView();
  };

  form.addEventListener("input", refresh);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("button").addEventListener("click", () => choose());
  for (const link of counts) link.addEventListener("click", () => choose(link));
  refresh();
  open();
  window.addEventListener("hashchange", open);
})();
