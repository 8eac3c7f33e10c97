// Stored trainings of the block and of a trained guess: which arrives first, for each width and prior mean?
(() => {
  "use strict";
  const { made, charts, digits } = window.explorers;
  const count = (steps) => steps.toLocaleString("en", { maximumSignificantDigits: 4 });

  made.race = ({ mean, width }, { controls, guess, block }) => {
    const [means, widths] = ["mean", "width"].map((key) => controls.find(({ name }) => name === key).values);
    const row = means.indexOf(mean), mine = block[row], yq = guess[row], at = mine[widths.indexOf(width)];
    const values = { block: at, guess: yq, ratio: at / yq }, ends = [widths[0], widths.at(-1)];
    const spec = {
      title: "Steps until the risk is within 1% of the minimum, against the width of the MLP",
      x: { label: "width m of the linear MLP", domain: ends, log: true },
      y: { label: "training steps until arrival", log: true, domain: [300, 20000] },
      lines: [{ name: "block", color: "ltb", points: mine.map((y, k) => [widths[k], y]) },
        { name: "attention with a trained guess", color: "yq", dash: "7 5", points: ends.map((x) => [x, yq]) }],
      dots: [{ color: "yq", x: width, y: yq }, { color: "ltb", x: width, y: at, grip: true }],
      at: width,
      drag: (x) => ({ width: x }),
    };
    const first = at < yq ? "The block arrives first" : "The trained guess arrives first";
    const text = `For prior means of ${digits(mean)} in each entry, the trained guess arrives after ${count(yq)} steps and the `
      + `block of width ${width} after ${count(at)}. ${first}: the block takes ${digits(at / yq)} times as long.`;
    return { values, text, draw: charts(spec) };
  };
})();
