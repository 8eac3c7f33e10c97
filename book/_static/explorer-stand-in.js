// What attention uses for the constant 1: the average squared length of the context's features, and what is left.
(() => {
  "use strict";
  const { made, laws, charts, digits, range } = window.explorers;

  // log Gamma, by the recurrence and Stirling's series.
  const logGamma = (x) => {
    let below = 0;
    for (; x < 12; x += 1) below += Math.log(x);
    const series = 1 / (12 * x) - 1 / (360 * x ** 3) + 1 / (1260 * x ** 5) - 1 / (1680 * x ** 7);
    return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series - below;
  };
  // Of the mean of k squares of standard normal numbers.
  const density = (t, k) =>
    t <= 0 ? 0 : Math.exp((k / 2) * Math.log(k / 2) - logGamma(k / 2) + (k / 2 - 1) * Math.log(t) - (k * t) / 2);

  made["stand-in"] = (state, data) => {
    const { C, d, error, noise } = state, k = C * d, left = laws.left(state);
    // The best combination, alpha t + kappa q: q, the average of squared residual labels, sees the label noise.
    const kappa = (left * noise ** 2) / laws.spread(state);
    const alpha = left * d * (C / 2 - noise ** 2 / laws.spread(state));
    const values = { variance: 2 / k, alpha, kappa, left, price: error * left, density: density(1, k) };
    const widest = Math.max(0.1, Math.min(1, 4 * Math.sqrt(2 / k)));
    const ends = [1 - widest, widest < 1 ? 1 + widest : 3], points = range(...ends, 240).map((t) => [t, density(t, k)]);
    const heights = points.filter(([t]) => t > 0.05).map(([, p]) => p);
    const lengths = data.controls.find(({ name }) => name === "C").values, grid = [lengths[0], lengths.at(-1)];
    const share = (task) => range(...grid.map(Math.log10), 60).map((x) => [10 ** x, laws.left({ ...task, C: 10 ** x })]);
    const fine = share(state), plain = share({ ...state, noise: 0 });
    const shown = {
      title: "Density of the stand-in t, the average squared length of the features, around the constant 1",
      x: { label: "average squared length t = tr(S)/d", domain: ends },
      y: { label: "density", domain: [0, 1.1 * Math.max(...heights)] },
      lines: [{ name: "exact density of the stand-in", colour: "other", points, fill: true },
        { name: "the constant", colour: "ink", dash: "2 4", points: [[1, 0], [1, 2 * Math.max(...heights)]] }],
    };
    const cost = {
      title: "Share of the guess's squared error that is left, against context length: it falls like 1/C",
      x: { label: "context length C", domain: grid, log: true },
      y: { label: "share of the guess’s squared error that is left", log: true,
        domain: [Math.min(...fine.map(([, y]) => y)) / 1.2, 1] },
      lines: [{ name: "exact share", colour: "lsa", points: fine },
        ...(noise > 0 ? [{ name: "without label noise, 2/(Cd+2)", colour: "lsa", dash: "6 4", points: plain }] : [])],
      dots: [{ colour: "lsa", x: C, y: left }],
      at: C,
    };
    const best = noise > 0 ? `${digits(alpha)} t + ${digits(kappa)} q` : `${digits(alpha)} t`;
    const text = `The stand-in has mean 1 and variance ${digits(values.variance)}. What comes closest to the constant `
      + `is ${best}, and ${digits(left)} of the square is left. So a guess with squared error ${digits(error)} `
      + `costs ${digits(values.price)}.`
      + (noise > 0 ? " Here q is the average of squared residual labels." : "");
    return { values, text, draw: charts(shown, cost) };
  };
})();
