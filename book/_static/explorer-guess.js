// The two examples of the page: the guess in the query's token, and the predictions that follow from it.
(() => {
  "use strict";
  const { made, chart, frame, svg, color, digits } = window.explorers;
  const dot = (a, b) => a.reduce((sum, value, k) => sum + value * b[k], 0);

  // The token matrix, one token a column; the guess is the cell that can be dragged.
  const matrix = ({ X, y, x_q: query }, guess) => {
    const columns = [...X.map((x, i) => [...x, y[i]]), [...query, guess]], wide = 78, tall = 34, left = 58, top = 24;
    const text = (words, x, y, anchor = "middle") => svg("text", { x, y, "text-anchor": anchor }, words);
    const bracket = (x, out) => svg("path", { class: "explorer-line", style: `stroke: ${color("ink")}`,
      d: `M${x + out} ${top - 2}H${x}V${top + 3 * tall + 2}H${x + out}` });
    const width = left + 3 * wide + 8, height = top + 3 * tall + 8;
    const cell = { x: left + 2 * wide + 4, y: top + 2 * tall + 3, width: wide - 8, height: tall - 6, rx: 3 };
    return svg("svg", { role: "img", "aria-label": `The tokens; the label of the query is the guess ${digits(guess)}`,
      width, height, viewBox: `0 0 ${width} ${height}` },
    svg("rect", { ...cell, class: "explorer-cell" }),
    ...["x₁", "x₂", "y"].map((name, row) => text(name, left - 16, top + (row + 0.65) * tall, "end")),
    ...["example 1", "example 2", "query"].map((name, k) => text(name, left + (k + 0.5) * wide, top - 8)),
    ...columns.flatMap((column, k) => column.map((value, row) =>
      text(digits(value), left + (k + 0.5) * wide, top + (row + 0.65) * tall))),
    bracket(left - 6, 6), bracket(left + 3 * wide + 6, -6));
  };

  made.guess = (state, data) => {
    const { guess, eta } = state, { X, y, x_q: query, prior_mean: start, weights } = data;
    // What both predictions add to where they start: the residuals, each with its token's product with the query.
    const residuals = X.map((x, i) => y[i] - dot(x, start));
    const moved = (eta / X.length) * dot(residuals, X.map((x) => dot(x, query)));
    const prior = dot(start, query), target = dot(weights, query);
    const values = { head: guess + moved, gd: prior + moved, target, prior };
    const { min, max } = data.controls.find(({ name }) => name === "guess"), ends = [min, max];
    const spec = {
      title: "Predictions of the head and of one gradient step, against the guess",
      x: { label: "the guess, the label of the query’s token", domain: [min - 0.5, max + 0.5] },
      y: { label: "prediction", domain: data.prediction },
      lines: [
        { name: "the head", color: "lsa", points: ends.map((x) => [x, x + moved]) },
        { name: "one gradient step from the prior mean", color: "gd", dash: "7 5",
          points: ends.map((x) => [x, values.gd]) },
        { name: "the true answer", color: "ink", dash: "2 4", points: ends.map((x) => [x, target]) },
      ],
      dots: [{ color: "gd", x: guess, y: values.gd }, { color: "lsa", x: guess, y: values.head, grip: true }],
      at: guess,
      drag: (x) => ({ guess: x }),
    };
    const text = `With the guess ${digits(guess)} the head predicts ${digits(guess)} + ${digits(moved)} = `
      + `${digits(values.head)}. One gradient step of size ${digits(eta)} from the prior mean predicts `
      + `${digits(prior)} + ${digits(moved)} = ${digits(values.gd)}. The true answer is ${digits(target)}.`
      + (guess === prior ? " Head and gradient step agree." : "");
    const draw = (stage, write) => {
      const box = frame(stage, 0);
      box.firstElementChild.replaceWith(matrix(data, guess));
      box.dataset.drag = "along";
      // Forty pixels to the right are one more.
      box.move = (event, began) => {
        began.guess ??= guess;
        write({ guess: began.guess + (event.clientX - began.clientX) / 40 });
      };
      chart(stage, 1, spec, write);
    };
    return { values, text, draw };
  };
})();
