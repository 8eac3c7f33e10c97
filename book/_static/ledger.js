// The ledger's filters: the counts of its tally, and a search. An address opens its row. Without this script the tables stay whole.
(() => {
  "use strict";
  const ledger = document.getElementById("ledger");
  const form = document.querySelector("form.ledger-tools");
  if (!ledger || !form) return;
  const tables = [...ledger.children];
  // A claim has two rows; the second opens to its evidence.
  const claims = [...ledger.querySelectorAll("tr[id]")].map((row) => {
    const pair = [row, row.nextElementSibling];
    return { row, pair, text: pair.map((each) => each.textContent).join(" ").toLowerCase() };
  });
  const counts = [...document.querySelectorAll(".ledger-tally a[href='#ledger']")];
  const [search] = form.elements;
  let chosen;

  const refresh = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = [...(chosen?.classList ?? [])].filter((name) => /^(source|verdict)-/.test(name));
    for (const { row, pair, text } of claims) {
      const fits = wanted.every((name) => row.classList.contains(name)) && words.every((word) => text.includes(word));
      for (const each of pair) each.hidden = !fits;
    }
    for (const table of tables) table.hidden = !table.querySelector("tr[id]:not([hidden])");
    for (const link of counts) link.ariaCurrent = link === chosen ? "true" : null;
    form.querySelector("output").textContent = `${claims.filter(({ row }) => !row.hidden).length} of ${claims.length} claims`;
  };
  const choose = (link) => {
    chosen = link;
    search.value = "";
    refresh();
  };
  // A row that an address names is seen, whatever the filters say, and open.
  const open = () => {
    const found = claims.find(({ row }) => `#${row.id}` === location.hash);
    if (!found) return;
    choose();
    found.pair[1].querySelector("details").open = true;
    found.row.scrollIntoView();
  };

  form.addEventListener("input", refresh);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("button").addEventListener("click", () => choose());
  for (const link of counts) link.addEventListener("click", () => choose(link));
  refresh();
  open();
  window.addEventListener("hashchange", open);
})();
