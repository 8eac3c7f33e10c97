// Trainings of a guess: how far it has come, and the risk, against the training step.
(() => {
  "use strict";
  const { made, charts, digits } = window.explorers;

  made.arrival = ({ mean, rate, step }, { steps, runs, gd }) => {
    const { share, risk } = runs[`${mean} ${rate}`], at = steps.indexOf(step), curve = (ys) => ys.map((y, k) => [steps[k], y]);
    const found = risk.findIndex((value) => value < 1.01 * gd), values = { share: share[at], risk: risk[at], gd };
    const axis = { label: "training step", domain: [steps[0], steps.at(-1)], log: true }, drag = (x) => ({ step: x });
    const guess = {
      title: "How far the guess has come, against the training step",
      x: axis,
      y: { label: "guess, as a share of the prior mean", domain: [-0.2, 1.2] },
      lines: [{ name: "the guess, mean over its entries", color: "yq", points: curve(share) },
        { name: "the prior mean", color: "ink", dash: "2 4", points: [[steps[0], 1], [steps.at(-1), 1]] }],
      dots: [{ color: "yq", x: step, y: share[at], grip: true }],
      at: step, drag,
    };
    const loss = {
      title: "Risk against the training step",
      x: axis,
      y: { label: "risk", log: true, domain: [4, 150] },
      lines: [{ name: "attention with this guess", color: "yq", points: curve(risk) },
        { name: "one gradient step", color: "gd", dash: "7 5", points: [[steps[0], gd], [steps.at(-1), gd]] }],
      dots: [{ color: "yq", x: step, y: risk[at], grip: true }],
      at: step, drag,
    };
    const text = `After ${step.toLocaleString("en")} steps the guess is ${digits(share[at])} times the prior mean, and the `
      + `risk is ${digits(risk[at])}; one gradient step has ${digits(gd)}. `
      + (found < 0 ? "Within these steps the risk does not come within 1% of it."
        : `By step ${steps[found].toLocaleString("en")} the risk is within 1% of it.`);
    return { values, text, draw: charts(guess, loss) };
  };
})();
