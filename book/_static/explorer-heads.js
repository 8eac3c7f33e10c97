// The minimum risk of a number of heads, and what it costs above one gradient step.
(() => {
  "use strict";
  const { made, laws, charts, digits, range, integers } = window.explorers;

  // Along one direction and for a mixture of slope tau, as in lsalib.theory.few_heads: the minimum risk of H < d heads.
  const mixture = (tau, heads, { d, C }, length) => {
    const m = heads - 1, inverse = 1 + (d + 1) / C;
    const c = 1 / Math.sqrt(1 + tau * tau), s = tau / Math.sqrt(1 + tau * tau);
    const rest = 2 * d + (2 * (d * d + 2 * d - m)) / C;
    const first = (2 * c * c) / C + s * s * inverse, mixed = c * s * (2 / C + inverse);
    const second = c * c * inverse + s * s * rest;
    const between = (4 / C) * (d - 1 + (d * d + d - m - 2) / C);
    const determinant = (2 * c ** 4 * inverse) / C + c * c * s * s * between + s ** 4 * rest * inverse;
    const solve = (x, y) => [(second * x - mixed * y) / determinant, (first * y - mixed * x) / determinant];
    const mean = [c, s * (d - m)], p = solve(...mean), q = solve(s, c);
    const left = 1 / (1 + (m * C) / 2 + mean[0] * p[0] + mean[1] * p[1]);
    const missing = left * (length - mean[0] * q[0] - mean[1] * q[1]);
    const gamma = s / (s * s * inverse + (c * c) / C);
    return 1 - s * q[0] - c * q[1] + missing ** 2 / left + m * (1 - 1 / inverse) + (d - heads) * (1 - s * gamma);
  };

  // The slope is scanned over sixteen decades, then on finer grids around its best point.
  const fewest = (heads, task, length) => {
    let low = -8, high = 8, least = Infinity;
    for (const count of [160, 20, 20, 20, 20, 20, 20]) {
      const grid = range(low, high, count), risks = grid.map((x) => mixture(10 ** x, heads, task, length));
      least = Math.min(...risks);
      const best = risks.indexOf(least);
      [low, high] = [grid[Math.max(best - 1, 0)], grid[Math.min(best + 1, count)]];
    }
    return least;
  };

  const least = (heads, task, error) => {
    const enough = error === 0 ? 1 : task.d;
    return heads >= enough ? laws.lsa(task, error) : fewest(heads, task, Math.sqrt(error));
  };

  made.heads = (state, data) => {
    const { heads, error } = state, counts = data.controls.find(({ name }) => name === "heads");
    const points = integers(counts.min, counts.max).map((H) => [H, least(H, state, error)]);
    const gd = laws.gd(state), best = laws.lsa(state, error), risk = points[heads - counts.min][1];
    const values = { risk, gd, best, price: risk - gd };
    const enough = error === 0 ? 1 : state.d, plural = (H) => `${H} head${H > 1 ? "s" : ""}`;
    const spec = {
      title: "The minimum risk against the number of heads",
      x: { label: "heads H", domain: [counts.min - 0.5, counts.max + 0.5] },
      y: { label: "minimum risk", domain: data.risk },
      lines: [
        { name: "minimum risk of H heads", color: "lsa", points },
        { name: "one gradient step", color: "gd", dash: "7 5", points: points.map(([H]) => [H, gd]) },
        { name: "the price", color: "ink", points: [[heads, gd], [heads, risk]] },
      ],
      dots: [...points.map(([x, y]) => ({ color: "lsa", x, y, open: true })),
        { color: "lsa", x: heads, y: risk, grip: true }],
      drag: (x) => ({ heads: x }),
    };
    const text = `The minimum risk of ${plural(heads)} is ${digits(risk)}: ${digits(values.price)} above `
      + `one gradient step, which has ${digits(gd)}. With ${plural(enough)} or more it is ${digits(best)}.`;
    return { values, text, draw: charts(spec) };
  };
})();
