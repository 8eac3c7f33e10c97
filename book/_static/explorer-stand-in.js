// What attention uses for the constant 1: the average squared length of the context's features, and what is left.
(() => {
  "use strict";
  const { made, laws, charts, digits, range } = window.explorers;

  made["stand-in"] = (state, data) => {
    const { C, d, error, noise } = state, k = C * d, left = laws.left(state);
    // The best combination, alpha t + kappa q: q, the average of squared residual labels, sees the label noise.
    const kappa = (left * noise ** 2) / laws.spread(state);
    const alpha = left * d * (C / 2 - noise ** 2 / laws.spread(state));
    const values = { variance: 2 / k, alpha, kappa, left, price: error * left, density: laws.density(1, k) };
    // Relative to its height at the constant 1, finely where the density is narrow.
    const sd = Math.sqrt(2 / k), bell = (t) => laws.density(t, k) / laws.density(1, k), edge = 1 + sd;
    const fine = range(-6, 6, 120).map((z) => 1 + z * sd).filter((t) => t > 0 && t < 2);
    const points = [...range(0.005, 2, 60), ...fine].sort((a, b) => a - b).map((t) => [t, bell(t)]);
    const lengths = data.controls.find(({ name }) => name === "C").values, grid = [lengths[0], lengths.at(-1)];
    const share = (task) =>
      range(...grid.map(Math.log10), 60).map((x) => [10 ** x, laws.left({ ...task, C: 10 ** x })]);
    const shown = {
      title: "Density of the stand-in, the average squared length of the features",
      x: { label: "average squared length t = tr(S)/d", domain: [0, 2] },
      y: { label: "density, relative to that at 1", domain: [0, 1.5] },
      lines: [{ name: "exact density of the stand-in", color: "other", points, fill: true },
        { name: "the constant", color: "ink", dash: "2 4", points: [[1, 0], [1, 1.5]] },
        { name: "one standard deviation", color: "ink", points: [[1, bell(edge)], [edge, bell(edge)]] }],
      dots: [{ color: "other", x: edge, y: bell(edge), grip: true }],
      drag: (t) => ({ C: 2 / (d * Math.max((t - 1) ** 2, 1e-6)) }),
    };
    const cost = {
      title: "Share of the guess's squared error that remains, against context length",
      x: { label: "context length C", domain: grid, log: true },
      y: { label: "share of the guess’s squared error that remains", log: true, domain: [1e-4, 1] },
      lines: [{ name: "exact share", color: "lsa", points: share(state) },
        ...(noise > 0 ? [{ name: "without label noise, 2/(Cd+2)", color: "lsa", dash: "6 4",
          points: share({ ...state, noise: 0 }) }] : [])],
      dots: [{ color: "lsa", x: C, y: left, grip: true }],
      at: C,
      drag: (x) => ({ C: x }),
    };
    const best = noise > 0 ? `${digits(alpha)} t + ${digits(kappa)} q` : `${digits(alpha)} t`;
    const text = `The stand-in has mean 1 and variance ${digits(values.variance)}. The combination closest to the `
      + `constant is ${best}, and ${digits(left)} of the square remains. A guess with squared error ${digits(error)} `
      + `costs ${digits(values.price)}.`
      + (noise > 0 ? " Here q is the average of squared residual labels." : "");
    return { values, text, draw: charts(shown, cost) };
  };
})();
