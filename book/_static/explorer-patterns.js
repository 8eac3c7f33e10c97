// Circuits of trained softmax heads as small matrices, at a moment of training.
(() => {
  "use strict";
  const { made, frame, html, svg, color, fixed, integers } = window.explorers;

  const cell = (value, x, y) => svg("rect", { x, y, width: 1, height: 1,
    opacity: Math.min(Math.abs(value), 1).toFixed(3), style: `fill: ${color(value > 0 ? "yq" : "lsa")}` });
  const border = (x, width, height) => svg("rect", { x, y: 0, width, height, class: "explorer-border" });

  // A, and b as a column beside it; opacity is size, full at `full`.
  const picture = (A, b, full, label) => {
    const size = b.length;
    return svg("svg", { role: "img", "aria-label": label, viewBox: `-0.1 -0.1 ${size + 1.7} ${size + 0.2}` },
      ...A.flatMap((row, y) => row.map((value, x) => cell(value / full.A, x, y))),
      ...b.map((value, y) => cell(value / full.b, size + 0.5, y)),
      border(0, size, size), border(size + 0.5, 1, size));
  };

  // The largest entry that a tidy head does not have; the query's empty label never meets the last column.
  const untidy = (A, b) => {
    const d = b.length - 1, off = A.flatMap((row, y) => row.slice(0, d).filter((_, x) => x !== y));
    return [Math.max(...off.map(Math.abs)), Math.max(...b.slice(0, d).map(Math.abs))];
  };

  made.patterns = (state, data) => {
    const snapshot = data.controls[0].values.indexOf(state.step);
    const [A, b] = data.layers[state.layer].map((course) => course[snapshot]), d = b[0].length - 1;
    const omega = A.map((head) => integers(0, d - 1).reduce((sum, k) => sum + head[k][k] / d, 0));
    const mu = b.map((head) => head[d]);
    const values = { omega, mu, A, b, eta: omega.reduce((sum, w, h) => sum + w * mu[h], 0),
      sum: mu.reduce((sum, m) => sum + m, 0), step: data.step };
    const cards = A.map((head, h) => {
      const words = `ω\u00a0=\u00a0${fixed(omega[h], 3)}, μ\u00a0=\u00a0${fixed(mu[h], 2)}`, [off, rest] = untidy(head, b[h]);
      const label = `Head ${h + 1}: A has ${fixed(omega[h], 3)} on its diagonal on average, off it at most ${fixed(off, 3)}; `
        + `b has ${fixed(mu[h], 2)} at the label, elsewhere at most ${fixed(rest, 2)}`;
      return html("figure", {}, picture(head, b[h], data.full, label), html("figcaption", {}, `head ${h + 1}: ${words}`));
    });
    const text = `Step ${state.step.toLocaleString("en")}, ${state.layer}: together the heads take a step of size `
      + `η\u00a0=\u00a0Σ\u00a0ωμ\u00a0=\u00a0${fixed(values.eta, 3)}; the best debiased step has ${fixed(data.step, 3)}. `
      + `Their μ add up to ${fixed(values.sum, 2)}. Blue is positive, orange negative, full color ${data.full.A} in A, `
      + `${data.full.b} in b.`;
    // From the left edge to the right one, a drag runs through the training.
    const draw = (stage, write) => {
      const box = frame(stage, 0), steps = data.controls[0].values;
      box.firstElementChild.replaceWith(html("div", { class: "explorer-heads" }, ...cards));
      box.dataset.drag = "along";
      box.move = (event) => {
        const { left, width } = box.getBoundingClientRect(), part = (event.clientX - left) / width;
        write({ step: steps[Math.round(Math.min(1, Math.max(0, part)) * (steps.length - 1))] });
      };
    };
    return { values, text, draw };
  };
})();
