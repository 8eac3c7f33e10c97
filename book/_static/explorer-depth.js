// What L layers use for the constant 1: the best polynomial in the mean squared length, and what it misses.
(() => {
  "use strict";
  const { made, laws, charts, digits, range, integers } = window.explorers;
  // The product of f(1), ..., f(n).
  const times = (n, f) => Array.from({ length: n }, (_, k) => f(k + 1)).reduce((a, b) => a * b, 1);
  // With nu = Cd/2: what L layers leave of the constant at t, and its mean square.
  const rest = (L, nu, t) =>
    integers(0, L).reduce((sum, k) => sum + times(k, (j) => ((j - 1 - L) * nu * t) / (j * (nu + j))), 0);
  const price = (L, nu) => times(L, (k) => k / (k + nu));

  made.depth = ({ L, C, d }, data) => {
    const nu = (C * d) / 2, sd = Math.sqrt(1 / nu), below = Math.max(1 - sd, 0), left = rest(L, nu, below);
    const values = { price: price(L, nu), one: price(1, nu), left };
    const lengths = data.controls.find(({ name }) => name === "C").values, grid = [lengths[0], lengths.at(-1)];
    const fine = range(-6, 6, 120).map((z) => 1 + z * sd).filter((t) => t > 0 && t < 2);
    const grain = [...range(0.005, 2, 60), ...fine].sort((a, b) => a - b);
    const stand = {
      title: "The best stand-in for the constant, against the mean squared length",
      x: { label: "mean squared length t", domain: [0, 2] },
      y: { label: "stand-in for 1", domain: [0, 1.5] },
      lines: [{ name: "best stand-in", color: "lsa", points: grain.map((t) => [t, 1 - rest(L, nu, t)]) },
        { name: "the constant", color: "ink", dash: "2 4", points: [[0, 1], [2, 1]] },
        { name: "how often t occurs", color: "other", fill: true,
          points: grain.map((t) => [t, (0.5 * laws.density(t, 2 * nu)) / laws.density(1, 2 * nu)]) }],
      dots: [{ color: "lsa", x: below, y: 1 - left, grip: true }],
      drag: (t) => ({ C: 2 / (d * Math.max((1 - t) ** 2, 1e-6)) }),
    };
    const dashes = ["", "7 5", "2 4"], place = (x, k) => [10 ** x, price(k, (10 ** x * d) / 2)];
    const cost = {
      title: "Share of the guess's squared error that remains, against context length",
      x: { label: "context length C", domain: grid, log: true },
      y: { label: "share of the guess’s squared error that remains", log: true, domain: [1e-12, 1] },
      lines: [1, 2, 3].map((k) => ({ name: `${k} layer${k > 1 ? "s" : ""}`, color: k === L ? "lsa" : "ink",
        dash: dashes[k - 1], points: range(...grid.map(Math.log10), 60).map((x) => place(x, k)) })),
      dots: [{ color: "lsa", x: C, y: values.price, grip: true }],
      at: C,
      drag: (x) => ({ C: x }),
    };
    const text = `The best stand-in of degree ${L} misses ${digits(values.price)} of the guess’s squared error`
      + (L > 1 ? `; one layer misses ${digits(values.one)}` : "") + ". Where t is one standard deviation too small, "
      + `${digits(left)} times the error is left.` + (L > 2 ? " For so many layers this is only a lower bound of the price." : "");
    return { values, text, draw: charts(stand, cost) };
  };
})();
