// The front page's answer: exact risks against one of four numbers.
window.explorers.made.answer = (state, data) => {
  "use strict";
  const { laws, charts, digits, range, integers } = window.explorers;
  const { over, error } = state;
  const control = data.controls.find(({ name }) => name === over);
  const whole = over === "C" || over === "d";
  const xs = whole ? integers(control.min, control.max) : range(control.min, control.max, 80);
  const at = (x) => ({ ...state, [over]: x });
  const curve = (f) => xs.map((x) => [x, f(at(x), at(x).error)]).filter(([, y]) => y !== null);
  const risks = { gd: laws.gd, yq: laws.gd, lsa: laws.lsa, bayes: laws.bayes };
  const values = Object.fromEntries(Object.entries(risks).map(([name, f]) => [name, f(state, error)]));
  values.price = values.lsa - values.gd;

  const heads = error === 0 ? 1 : state.d + (state.noise > 0 ? 1 : 0);
  const lines = [
    { name: "best multi-head attention", color: "lsa", points: curve(laws.lsa) },
    { name: "one gradient step from the prior mean", color: "gd", points: curve(laws.gd) },
    { name: "attention with a trained guess: the same", color: "yq", dash: "7 7", points: curve(laws.gd) },
  ];
  if (curve(laws.bayes).length > 1)
    lines.push({ name: "Bayes, without label noise", color: "bayes", points: curve(laws.bayes) });
  const dots = ["lsa", "gd", "bayes"].filter((name) => values[name] !== null)
    .map((name) => ({ color: name, x: state[over], y: values[name], grip: name === "lsa" }));
  const spec = {
    title: `Exact risks against the ${control.label}`,
    x: { label: control.label, domain: [control.min, control.max] },
    y: { label: "risk", domain: over === "C" ? [0, 18] : data.risk },
    lines, dots, at: state[over], drag: (x) => ({ [over]: x }),
  };
  const bayes = values.bayes === null
    ? "With label noise the Bayes risk has no closed form and is not drawn."
    : `The Bayes risk is ${digits(values.bayes)}.`;
  const text = `Best multi-head attention (${heads} head${heads > 1 ? "s" : ""} or more): ${digits(values.lsa)}. `
    + `One gradient step, and attention with a trained guess: ${digits(values.gd)}. `
    + `The wrong guess costs ${digits(values.price)}. ${bayes}`;
  return { values, text, draw: charts(spec) };
};
