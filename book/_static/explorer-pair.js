// Second moments of the Gram matrix: two tokens of a context share their task, however long the context is.
(() => {
  "use strict";
  const { made, charts, digits, range } = window.explorers;

  // Of an entry G_mn, with w the task's weights and square = E |w|^2: the squared mean over tasks, the mean over
  // tasks of the square, which is that of two different tokens of one task, and E (z_m z_n)^2 of one token.
  const moments = ({ entry, d, mean }) => {
    const square = d * (mean ** 2 + 1), fourth = square ** 2 + 4 * d * mean ** 2 + 2 * d;
    if (entry === "xx") return { paper: 1, limit: 1, token: 3 };
    if (entry === "xy") return { paper: mean ** 2, limit: mean ** 2 + 1, token: 2 * (mean ** 2 + 1) + square };
    return { paper: square ** 2, limit: fourth, token: 3 * fourth };
  };
  const names = { xy: "G[1,y]²", yy: "G[y,y]²", xx: "G[1,1]²" };

  made.pair = (state, data) => {
    const { paper, limit, token } = moments(state), { C } = state;
    const at = (pairs) => (length) => (1 - 1 / length) * pairs + token / length;
    const exact = at(limit), independent = at(paper);
    const values = { exact: exact(C), independent: independent(C), limit, paper };
    const lengths = data.controls.find(({ name }) => name === "C").values, ends = [lengths[0], lengths.at(-1)];
    const grid = range(...ends.map(Math.log10), 120).map((x) => 10 ** x);
    // In units of the exact limit, so that one axis fits every task.
    const curve = (f) => grid.map((length) => [length, f(length) / limit]);
    const spec = {
      title: "Second moment, relative to its exact limit, against context length",
      x: { label: "context length C", domain: ends, log: true },
      y: { label: `mean of ${names[state.entry]}, relative to its exact limit`, domain: [0, 2] },
      lines: [
        { name: "exact: tokens of one task", color: "other", points: curve(exact) },
        { name: "tokens taken to be independent", color: "ink", points: curve(independent) },
        { name: "exact limit", color: "other", dash: "8 4", points: ends.map((x) => [x, 1]) },
        { name: "the paper’s eq. 23", color: "ink", dash: "2 4", points: ends.map((x) => [x, paper / limit]) },
      ],
      dots: [{ color: "ink", x: C, y: values.independent / limit },
        { color: "other", x: C, y: values.exact / limit, grip: true }],
      at: C,
      drag: (x) => ({ C: x }),
    };
    const text = `With ${C.toLocaleString("en")} token${C > 1 ? "s" : ""} the mean of ${names[state.entry]} is `
      + `${digits(values.exact)}; tokens taken to be independent would give ${digits(values.independent)}. `
      + `The exact limit is ${digits(limit)}, the paper’s eq. 23 has ${digits(paper)}.`
      + (limit === paper ? " Here both agree." : "");
    return { values, text, draw: charts(spec) };
  };
})();
