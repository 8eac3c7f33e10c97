// One feature, one example: a layer x_q (c + m eps x^2), its distance from the best step, and its risk.
(() => {
  "use strict";
  const { made, charts, digits } = window.explorers;
  const best = 1 / 3, base = Math.sqrt(2 / 3);

  made.triangle = ({ m, c }, data) => {
    const wrong = 3 * (m - best) ** 2, even = c ** 2, away = Math.sqrt(wrong + even), risk = base ** 2 + wrong + even;
    const values = { risk, base: base ** 2, wrong, even };
    const [steps, rest] = ["m", "c"].map((key) => data.controls.find(({ name }) => name === key));
    // One unit of m is a distance of the square root of 3: with this aspect, lengths in the picture are distances.
    const plane = {
      title: "The layer around the best step: its step η to the right, c upward",
      x: { label: "step η", domain: [steps.values[0], steps.values.at(-1)] },
      y: { label: "c, which ignores the sign of ε", domain: [rest.min, rest.max] },
      aspect: 1 / Math.sqrt(3),
      lines: [
        { name: "wrong step", color: "other", points: [[best, 0], [m, 0]] },
        { name: "what ignores the sign", color: "yq", points: [[m, 0], [m, c]] },
        { name: "distance from the best step", color: "lsa", dash: "6 4", points: [[best, 0], [m, c]] },
      ],
      dots: [{ color: "gd", x: best, y: 0 }, { color: "lsa", x: m, y: c, grip: true }],
      drag: (x, y) => ({ m: x, c: y }), free: true,
    };
    // Up and down, the layer keeps its direction from the best step; from the best step itself it moves along c.
    const pull = (length) =>
      away > 0.02 ? { m: best + ((m - best) * length) / away, c: (c * length) / away } : { c: length };
    const triangle = {
      title: "The triangle of the truth, the best step and the layer",
      x: { label: "distance along the base", domain: [-0.45, 1.65] },
      y: { label: "distance from the best step", domain: [-0.1, 2.1] },
      aspect: 1,
      lines: [
        { name: "√(risk of the best step)", color: "gd", points: [[0, 0], [base, 0]] },
        { color: "lsa", dash: "6 4", points: [[base, 0], [base, away]] },
        { name: "√(risk of the layer)", color: "lsa", points: [[0, 0], [base, away]] },
        { color: "ink", points: [[base - 0.1, 0], [base - 0.1, 0.1], [base, 0.1]] },
      ],
      dots: [{ color: "ink", x: 0, y: 0 }, { color: "gd", x: base, y: 0 },
        { color: "lsa", x: base, y: away, grip: true }],
      notes: [{ x: -0.06, y: 0.07, words: "truth", anchor: "end" }, { x: base + 0.08, y: -0.04, words: "best step" },
        { x: base + 0.08, y: away + 0.06, words: "layer" }],
      drag: (x, y) => pull(Math.max(y, 0)),
      free: true,
    };
    const text = `Risk ${digits(risk)} = ${digits(base ** 2)} for the best step + ${digits(wrong)} for the wrong step `
      + `+ ${digits(even)} for what ignores the sign of ε.`;
    return { values, text, draw: charts(plane, triangle) };
  };
})();
