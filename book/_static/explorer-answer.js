// The front page's answer: what a wrong guess costs, against one of four numbers.
window.explorers.made.answer = (state, data) => {
  "use strict";
  const { laws, charts, digits, range, integers } = window.explorers;
  const { over, error } = state;
  const control = data.controls.find(({ name }) => name === over);
  const xs = (control.step === 1 ? integers : range)(control.min, control.max, 80);
  const cost = (task) => laws.lsa(task, task.error) - laws.gd(task);
  const values = { gd: laws.gd(state), yq: laws.gd(state), lsa: laws.lsa(state, error), bayes: laws.bayes(state) };
  values.price = cost(state);

  const heads = error === 0 ? 1 : state.d + (state.noise > 0 ? 1 : 0);
  const spec = {
    title: `What the wrong guess costs against the ${control.label}`,
    x: { label: control.label, domain: [control.min, control.max] },
    y: { label: "risk above one gradient step", domain: data.cost[over] },
    lines: [
      { name: "best multi-head attention", color: "lsa", fill: true, points: xs.map((x) => [x, cost({ ...state, [over]: x })]) },
      { name: "one gradient step from the prior mean", color: "gd", points: [[xs[0], 0], [xs.at(-1), 0]] },
      { name: "attention with a trained guess: the same", color: "yq", dash: "7 7", points: [[xs[0], 0], [xs.at(-1), 0]] },
    ],
    dots: [{ color: "gd", x: state[over], y: 0 }, { color: "lsa", x: state[over], y: values.price, grip: true }],
    at: state[over],
    drag: (x) => ({ [over]: x }),
  };
  const bayes = values.bayes === null ? "With label noise the Bayes risk has no closed form."
    : `The Bayes risk is ${digits(values.bayes)}.`;
  const text = `Best multi-head attention (${heads} head${heads > 1 ? "s" : ""} or more): ${digits(values.lsa)}. `
    + `One gradient step, and attention with a trained guess: ${digits(values.gd)}. `
    + `The wrong guess costs ${digits(values.price)}. ${bayes}`;
  return { values, text, draw: charts(spec) };
};
