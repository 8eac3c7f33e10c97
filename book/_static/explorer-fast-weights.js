// The delta rule in the plane: where its steps lead, and the risk that its start and its step leave on average.
(() => {
  "use strict";
  const { made, charts, digits, integers } = window.explorers;
  const dot = ([a, b], [c, d]) => a * c + b * d;
  const orders = {
    given: (X) => X,
    reversed: (X) => [...X].reverse(),
    longest: (X) => [...X].sort((a, b) => dot(b, b) - dot(a, a)),
    shortest: (X) => [...X].sort((a, b) => dot(a, a) - dot(b, b)),
  };

  made["fast-weights"] = ({ start, beta, order }, { X, w, prior_mean: mean, plane, risk }) => {
    const off = (place) => place.map((entry, k) => entry - w[k]), count = X.length;
    const step = (at, x) => at.map((entry, k) => entry - beta * dot(off(at), x) * x[k]);
    const path = orders[order](X).reduce((done, x) => [...done, step(done.at(-1), x)], [mean.map((m) => start * m)]);
    const errors = path.map((at) => dot(off(at), off(at))), rho = 1 - 2 * beta + 4 * beta ** 2;
    const law = (share) => (n) => [n, rho ** n * (2 + (1 - share) ** 2 * dot(mean, mean))];
    const found = path.at(-1), error = errors.at(-1), numbers = integers(0, count);
    const [mine, right] = [start, 1].map((share) => numbers.map(law(share)));
    const values = { found, error, risk: mine[count][1], right: right[count][1] };
    const fits = ([a, b]) => [-9, 9].map((far) => [w[0] - far * b, w[1] + far * a]);
    const weights = {
      title: "The path of the weights, and the lines of weights that fit an example",
      x: { label: "first weight", domain: plane[0] },
      y: { label: "second weight", domain: plane[1] },
      aspect: 1,
      lines: [{ name: "the descent", color: "lsa", points: path },
        ...X.map((x, k) => ({ name: k ? "" : "fits an example", color: "ink", dash: "2 4", points: fits(x) }))],
      dots: [{ color: "ink", x: w[0], y: w[1] }, ...path.slice(1).map(([x, y]) => ({ color: "lsa", x, y, open: true })),
        { color: "lsa", x: path[0][0], y: path[0][1], grip: true }],
      drag: (x, y) => ({ start: dot([x, y], mean) / dot(mean, mean) }), free: true,
    };
    const left = {
      title: "Squared error against the number of examples",
      x: { label: "examples", domain: [0, count] },
      y: { label: "squared error", domain: risk },
      lines: [{ name: "mean over tasks, from this start", color: "lsa", points: mine },
        { name: "mean, from the prior mean", color: "yq", dash: "7 5", points: right },
        { name: "this task", color: "other", dash: "2 4", points: errors.map((each, n) => [n, each]) }],
      dots: [{ color: "lsa", x: 0, y: mine[0][1], grip: true }],
      drag: (x, y) => ({ start: 1 - Math.sqrt(Math.max(y - 2, 0) / dot(mean, mean)) }), free: true,
    };
    const text = `From ${digits(start)} times the prior mean, the descent ends at (${found.map(digits).join(", ")}), `
      + `with the squared error ${digits(error)}. The mean over tasks and contexts is ${digits(values.risk)}, and `
      + `${digits(values.right)} from the prior mean.`;
    return { values, text, draw: charts(weights, left) };
  };
})();
