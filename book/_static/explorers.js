// Explorable figures: controls, charts in plain SVG, and a line of text that states the numbers.
// An explorer is a function of the controls' state and its data; it registers itself as window.explorers.made[name].
(() => {
  "use strict";
  const colour = (name) => `var(--fig-${name})`;

  const filled = (node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const html = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) =>
    filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  // Four digits, as the book's tables have them.
  const minus = (text) => text.replace("-", "−");
  const digits = (value) => minus(String(Number(value.toPrecision(4))));
  const fixed = (value, places) => minus(value.toFixed(places));
  const range = (low, high, count) => Array.from({ length: count + 1 }, (_, k) => low + ((high - low) * k) / count);
  const integers = (low, high) => range(low, high, high - low);

  const linearTicks = ([low, high], most) => {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
    return integers(first, last).map((k) => k * step);
  };
  const logTicks = ([low, high], most) => {
    const powers = integers(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)));
    const sparse = Math.max(1, Math.ceil(Math.log10(high / low) / most));
    const digit = high / low < 300 ? [1, 2, 5] : [1];
    const all = powers.filter((power) => power % sparse === 0).flatMap((power) => digit.map((d) => d * 10 ** power));
    return all.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  };
  const shown = (tick) => (Math.abs(tick) >= 1e4 ? tick.toLocaleString("en") : String(Number(tick.toPrecision(10))));

  // An axis {label, domain, log} along [from, to] pixels.
  const scale = ({ domain, log }, from, to, most) => {
    const at = log ? Math.log : (value) => value;
    const [low, high] = domain.map(at);
    const place = (value) => from + ((at(value) - low) / (high - low)) * (to - from);
    return { place, ticks: (log ? logTicks : linearTicks)(domain, most) };
  };
  const path = (points, x, y) =>
    points.map(([a, b], k) => `${k ? "L" : "M"}${x(a).toFixed(2)} ${y(b).toFixed(2)}`).join("");

  let clips = 0;
  // {title, x, y, lines: [{colour, dash, points, fill}], dots: [{colour, x, y, open}], at: x, rules: [{colour, x, y}]}
  const chart = (box, spec) => {
    const width = Math.min(box.clientWidth || 600, 672), height = Math.max(240, Math.min(290, 0.6 * width));
    const left = 58, right = width - 26, top = 30, bottom = height - 46, clip = `explorer-clip-${clips++}`;
    const x = scale(spec.x, left, right, Math.max(3, width / 70)), y = scale(spec.y, bottom, top, 5);
    const text = (words, attributes) => svg("text", attributes, words);
    const rule = (a, b, c, d, more) => svg("line", { x1: a, y1: b, x2: c, y2: d, ...more });
    const axes = svg("g", { class: "explorer-axes" },
      rule(left, bottom, right, bottom), rule(left, top, left, bottom),
      ...x.ticks.flatMap((tick) => [
        rule(x.place(tick), bottom, x.place(tick), bottom + 5),
        text(shown(tick), { x: x.place(tick), y: bottom + 19, "text-anchor": "middle" }),
      ]),
      ...y.ticks.flatMap((tick) => [
        rule(left - 5, y.place(tick), left, y.place(tick)),
        text(shown(tick), { x: left - 8, y: y.place(tick) + 4, "text-anchor": "end" }),
      ]),
      text(spec.x.label, { x: (left + right) / 2, y: height - 8, "text-anchor": "middle" }),
      text(spec.y.label, { x: 2, y: 14 }),
    );
    const inside = svg("g", { "clip-path": `url(#${clip})` });
    if (spec.at !== undefined)
      inside.append(rule(x.place(spec.at), top, x.place(spec.at), bottom, { class: "explorer-at" }));
    for (const { points, colour: name, dash = "", fill } of spec.lines) {
      const d = path(points, x.place, y.place);
      if (fill) inside.append(svg("path", { d: `${d}V${bottom}H${x.place(points[0][0])}Z`, class: "explorer-veil",
        style: `fill: ${colour(name)}` }));
      inside.append(svg("path", { d, class: "explorer-line", style: `stroke: ${colour(name)}`,
        "stroke-dasharray": dash }));
    }
    for (const { x: a, y: b, colour: name, open } of spec.dots ?? [])
      inside.append(svg("circle", { cx: x.place(a), cy: y.place(b), r: open ? 3.5 : 5.5,
        style: `stroke: ${colour(name)}; fill: ${open ? "none" : colour(name)}` }));
    const frame = svg("clipPath", { id: clip },
      svg("rect", { x: left - 6, y: top - 6, width: right - left + 12, height: bottom - top + 12 }));
    const picture = svg("svg", { role: "img", "aria-label": spec.title, width, height,
      viewBox: `0 0 ${width} ${height}` }, frame, axes, inside);
    box.replaceChildren(picture, legend(spec.lines));
  };

  const legend = (lines) => html("ul", { class: "explorer-legend" }, ...lines.filter(({ name }) => name)
    .map(({ name, colour: ink, dash = "" }) => html("li", {}, svg("svg", { width: 26, height: 10, "aria-hidden": "true" },
      svg("path", { d: "M1 5H25", class: "explorer-line", style: `stroke: ${colour(ink)}`, "stroke-dasharray": dash })),
    name)));

  // One control: its node, and what it says now.
  const controlled = (spec, id) => {
    const shownValue = html("span", { class: "explorer-value" });
    const label = html("label", { for: id }, spec.label);
    if (spec.options) {
      const options = spec.options.map(([value, words]) => html("option", { value }, words));
      const select = html("select", { id, name: spec.name }, ...options);
      select.value = spec.value;
      return { node: html("div", {}, label, select), read: () => select.value };
    }
    const steps = spec.values ? { min: 0, max: spec.values.length - 1, step: 1 } : spec;
    const input = html("input", { id, name: spec.name, type: "range", min: steps.min, max: steps.max, step: steps.step });
    input.value = spec.values ? spec.values.indexOf(spec.value) : spec.value;
    const read = () => (spec.values ? spec.values[input.value] : Number(input.value));
    const say = () => {
      shownValue.textContent = read().toLocaleString("en");
      input.setAttribute("aria-valuetext", shownValue.textContent);
    };
    say();
    input.addEventListener("input", say);
    return { node: html("div", {}, label, shownValue, input), read };
  };

  const start = (box, number) => {
    const name = box.dataset.explorer, explorer = made[name];
    if (!explorer) return;
    const data = JSON.parse(box.querySelector("script[type='application/json']").textContent);
    const controls = data.controls.map((spec) => [spec.name, controlled(spec, `explorer-${number}-${spec.name}`)]);
    const form = html("form", { class: "explorer-controls" }, ...controls.map(([, control]) => control.node));
    const stage = html("div", { class: "explorer-stage" });
    const says = html("p", { class: "explorer-says", "aria-live": "polite" });
    const refresh = () => {
      const state = Object.fromEntries(controls.map(([key, control]) => [key, control.read()]));
      const { values, text, draw } = explorer(state, data);
      box.dataset.values = JSON.stringify(values);
      if (says.textContent !== text) says.textContent = text;
      draw(stage);
    };
    form.addEventListener("input", refresh);
    form.addEventListener("submit", (event) => event.preventDefault());
    box.firstElementChild.id = `explorer-${number}`;
    filled(box, { role: "group", "aria-labelledby": `explorer-${number}` }, [form, stage, says]);
    // Drawn in pixels of the screen, so that text keeps its size: again, where the width is another one.
    let width = -1;
    const fit = () => {
      if (stage.clientWidth !== width) refresh();
      width = stage.clientWidth;
    };
    refresh();
    // Only now: what fails stays hidden.
    box.hidden = false;
    box.closest("details")?.removeAttribute("hidden");
    new ResizeObserver(fit).observe(stage);
  };

  // Several charts, each in a box of its own that stays where it is.
  const charts = (...specs) => (stage) => {
    while (stage.children.length < specs.length) stage.append(html("div"));
    specs.forEach((spec, k) => chart(stage.children[k], spec));
  };

  // The book's laws for identity covariances, of a task {d, C, noise} and the guess's squared error.
  const variance = ({ noise = 0 }) => noise ** 2;
  const spread = (task) => 2 * task.d + (2 * ((task.d + variance(task)) ** 2 + task.d)) / task.C;
  const laws = {
    step: (task) => task.C / (task.C + task.d + 1 + variance(task)),
    // One gradient step from the prior mean; attention with a trained guess does the same.
    gd: (task) => task.d * (1 - laws.step(task)),
    // What is left of the constant 1, in its imitation by the context.
    left: (task) => 1 / (1 + (task.C * task.d) / 2 + variance(task) ** 2 / spread(task)),
    lsa: (task, error) => laws.gd(task) + error * laws.left(task),
    bayes: (task) => (variance(task) ? null : Math.max(task.d - task.C, 0)),
    spread,
  };

  const made = {};
  window.explorers = { made, laws, charts, html, svg, colour, digits, fixed, range, integers };
  document.addEventListener("DOMContentLoaded", () => 
    document.querySelectorAll(".explorer").forEach((box, number) => queueMicrotask(() => start(box, number))));
})();
