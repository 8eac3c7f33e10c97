// The ledger's filters and search, and claims that an address opens. Without this script the table stays whole.
(() => {
  "use strict";
  const table = document.getElementById("ledger");
  const form = document.querySelector("form.ledger-tools");
  if (!table || !form) return;
  const rows = [...table.tBodies].map((row) => ({ row, text: row.textContent.toLowerCase() }));
  const { text: search, ...filters } = Object.fromEntries([...form.elements].map((field) => [field.name, field]));
  delete filters[""];

  const refresh = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { row, text } of rows) {
      const fits = Object.entries(filters).every(([name, { value }]) => !value || row.dataset[name] === value);
      row.hidden = !(fits && words.every((word) => text.includes(word)));
      shown += !row.hidden;
    }
    form.querySelector("output").textContent = `${shown} of ${rows.length} claims`;
  };

  // A row that an address names is seen, whatever the filters say, and open.
  const open = () => {
    const found = rows.find(({ row }) => `#${row.id}` === location.hash)?.row;
    if (!found) return;
    form.reset();
    refresh();
    found.querySelector("details").open = true;
    found.scrollIntoView();
  };

  form.addEventListener("input", refresh);
  form.addEventListener("submit", (event) => event.preventDefault());
  // A count of the tally shows the claims that it counts.
  for (const link of document.querySelectorAll(".ledger-tally a")) {
    link.addEventListener("click", () => {
      form.reset();
      for (const [name, value] of Object.entries(link.dataset)) filters[name].value = value;
      refresh();
    });
  }
  refresh();
  open();
  window.addEventListener("hashchange", open);
})();
