// Interactive figures: a question, controls, charts in plain SVG, a line that states the numbers, and the answer.
// An explorer maps the controls' state and its data to {values, text, draw} and is stored in window.explorers.made.
(() => {
  "use strict";
  const color = (name) => `var(--fig-${name})`;

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
  const fixed = (value, places) => minus((Math.abs(value) < 0.5 / 10 ** places ? 0 : value).toFixed(places));
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
    const of = (digit) => powers.filter((power) => power % sparse === 0)
      .flatMap((power) => digit.map((d) => d * 10 ** power))
      .filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    const fine = of([1, 2, 5]);
    return high / low < 300 && fine.length <= most ? fine : of([1]);
  };
  const shown = (tick) => minus(tick > 0 && tick < 1e-4 ? tick.toExponential()
    : Math.abs(tick) >= 1e4 ? tick.toLocaleString("en") : String(Number(tick.toPrecision(10))));

  // An axis {label, domain, log} along [from, to] pixels: from a value to its pixel, and back within the domain.
  const scale = ({ domain, log }, from, to, most) => {
    const at = log ? Math.log : (value) => value, back = log ? Math.exp : (value) => value;
    const [low, high] = domain.map(at), span = (high - low) / (to - from);
    const place = (value) => from + (at(value) - low) / span;
    const value = (pixel) => back(Math.min(high, Math.max(low, low + (pixel - from) * span)));
    return { place, value, ticks: (log ? logTicks : linearTicks)(domain, most) };
  };
  const path = (points, x, y) =>
    points.map(([a, b], k) => `${k ? "L" : "M"}${x(a).toFixed(2)} ${y(b).toFixed(2)}`).join("");

  // A node that can be dragged: its property `move` gets each event of a drag, and the event that began it. A finger that
  // moves up or down scrolls the page instead, unless it began where the style says that touch is for dragging only.
  const draggable = (node) => {
    let began = null, follows = false;
    const apart = (event) => [event.clientX - began.clientX, event.clientY - began.clientY].map(Math.abs);
    node.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      began = event;
      follows = event.pointerType === "mouse" || getComputedStyle(event.target).touchAction === "none";
      node.setPointerCapture(event.pointerId);
      if (follows) node.move(event, began);
    });
    node.addEventListener("pointermove", (event) => {
      if (!began) return;
      const [x, y] = apart(event);
      follows ||= x > Math.max(y, 6);
      if (follows) node.move(event, began);
    });
    node.addEventListener("pointerup", (event) => {
      if (began && (follows || Math.max(...apart(event)) < 6)) node.move(event, began);
      began = null;
    });
    node.addEventListener("pointercancel", () => {
      began = null;
    });
    return node;
  };
  // A stage's frame number k: a picture, and a grip over the dot to drag. Only the picture is replaced: a drag ends when
  // the element under the finger is removed.
  const frame = (stage, k) => {
    while (stage.children.length <= k) {
      const grip = html("div", { class: "explorer-grip", hidden: "" });
      stage.append(html("div", {}, draggable(html("div", { class: "explorer-frame" }, html("div"), grip))));
    }
    return stage.children[k].firstElementChild;
  };

  const legend = (lines) => html("ul", { class: "explorer-legend" }, ...lines.filter(({ name }) => name)
    .map(({ name, color: ink, dash = "" }) => html("li", {},
      svg("svg", { width: 26, height: 10, "aria-hidden": "true" }, svg("path", { d: "M1 5H25", class: "explorer-line",
        style: `stroke: ${color(ink)}`, "stroke-dasharray": dash })), name)));

  let clips = 0;
  // {title, x, y: axes; lines: [{name, color, dash, points, fill}], dots: [{color, x, y, open, grip}], at: x,
  // notes: [{x, y, words, anchor}], drag: (x, y) => new state, free: drags in both directions,
  // aspect: pixels of a unit of y over those of x, widest: in pixels}. The axes may depend on a choice, but on no slider.
  const chart = (stage, k, spec, write) => {
    const box = frame(stage, k), left = 58, top = 30, below = 46;
    const width = Math.min(box.clientWidth || 600, spec.widest ?? 672), right = width - 26;
    const [wide, high] = [spec.x, spec.y].map(({ domain }) => domain[1] - domain[0]);
    const height = spec.aspect ? top + below + ((right - left) * spec.aspect * high) / wide
      : Math.max(260, Math.min(300, 0.6 * width));
    const bottom = height - below, clip = `explorer-clip-${clips++}`;
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
    const inside = svg("g", { "clip-path": `url(#${clip})` }), outside = svg("g");
    if (spec.at !== undefined)
      inside.append(rule(x.place(spec.at), top, x.place(spec.at), bottom, { class: "explorer-at" }));
    for (const { points, color: name, dash = "", fill } of spec.lines) {
      const d = path(points, x.place, y.place);
      if (fill) inside.append(svg("path", { d: `${d}V${bottom}H${x.place(points[0][0])}Z`, class: "explorer-veil",
        style: `fill: ${color(name)}` }));
      inside.append(svg("path", { d, class: "explorer-line", style: `stroke: ${color(name)}`,
        "stroke-dasharray": dash }));
    }
    box.lastElementChild.hidden = false;
    for (const { x: a, y: b, color: name, open, grip } of spec.dots ?? []) {
      const cx = Math.min(Math.max(x.place(a), left), right), cy = Math.max(y.place(b), top);
      if (grip) box.lastElementChild.style = `left: ${cx}px; top: ${cy}px; background: ${color(name)}`;
      if (b > spec.y.domain[1]) {
        // A dot above the axes becomes an arrow at their end, with its number.
        if (open) continue;
        const end = cx > (left + right) / 2;
        outside.append(svg("path", { d: `M${cx} ${top - 5}l6 10h-12Z`, style: `fill: ${color(name)}` }),
          text(digits(b), { x: cx + (end ? -10 : 10), y: top + 5, "text-anchor": end ? "end" : "start" }));
        continue;
      }
      outside.append(svg("circle", { cx, cy, r: open ? 3.5 : 5.5,
        style: `stroke: ${color(name)}; fill: ${open ? "none" : color(name)}` }));
    }
    for (const { x: a, y: b, words, anchor = "start" } of spec.notes ?? [])
      outside.append(text(words, { x: x.place(a), y: y.place(b), "text-anchor": anchor, class: "explorer-note" }));
    const edges = svg("clipPath", { id: clip },
      svg("rect", { x: left - 6, y: top - 6, width: right - left + 12, height: bottom - top + 12 }));
    box.firstElementChild.replaceWith(svg("svg", { role: "img", "aria-label": spec.title, width, height,
      viewBox: `0 0 ${width} ${height}` }, edges, axes, inside, outside));
    box.nextElementSibling?.remove();
    box.after(legend(spec.lines));
    box.dataset.drag = spec.free ? "both" : "along";
    box.move = (event) => {
      const corner = box.getBoundingClientRect();
      write(spec.drag(x.value(event.clientX - corner.left), y.value(event.clientY - corner.top)));
    };
  };
  const charts = (...specs) => (stage, write) => specs.forEach((spec, k) => chart(stage, k, spec, write));

  // One control: its node, what it says now, and a way to set it to the nearest value that it can take.
  const controlled = (spec, id) => {
    const shownValue = html("span", { class: "explorer-value" });
    const label = html("label", { for: id }, spec.label);
    if (spec.options) {
      const options = spec.options.map(([value, words]) => html("option", { value }, words));
      const select = html("select", { id, name: spec.name }, ...options);
      select.value = spec.value;
      return { node: html("div", {}, label, select), read: () => select.value };
    }
    const { values } = spec, steps = values ? { min: 0, max: values.length - 1, step: 1 } : spec;
    const { min, max, step } = steps, input = html("input", { id, name: spec.name, type: "range", min, max, step });
    input.value = values ? values.indexOf(spec.value) : spec.value;
    const read = () => (values ? values[input.value] : Number(input.value));
    const say = () => {
      shownValue.textContent = minus(read().toLocaleString("en", { maximumFractionDigits: 6 }));
      input.setAttribute("aria-valuetext", shownValue.textContent);
    };
    const apart = (a, b) => (values[0] > 0 ? Math.abs(Math.log(a / b)) : Math.abs(a - b));
    const write = (value) => {
      const nearest = (best, other, k) => (apart(other, value) < apart(values[best], value) ? k : best);
      input.value = values ? values.reduce(nearest, 0) : value;
      say();
    };
    say();
    input.addEventListener("input", say);
    return { node: html("div", {}, label, shownValue, input), read, write };
  };

  // The directive's paragraph, list and rest become a question, buttons to answer it, and what "Show the answer" shows.
  const asked = (box, id) => {
    const [question, list, ...answer] = [...box.children].filter((node) => node.tagName !== "SCRIPT");
    question.id = id;
    const button = (attributes, ...words) => html("button", { type: "button", ...attributes }, ...words);
    const choices = [...list.querySelectorAll("li")]
      .map((item) => button({}, ...(item.querySelector("p") ?? item).childNodes));
    const verdict = html("strong"), right = choices[box.dataset.right - 1];
    const told = html("div", { id: `${id}-answer`, hidden: "" }, ...answer);
    const show = button({ "aria-controls": told.id });
    let chosen = null;
    const refresh = () => {
      for (const choice of choices) {
        choice.setAttribute("aria-pressed", choice === chosen);
        choice.classList.toggle("explorer-right", choice === right && (chosen === right || !told.hidden));
      }
      verdict.textContent = chosen ? (chosen === right ? "That is right." : "Not quite.") : "";
      show.setAttribute("aria-expanded", !told.hidden);
      show.textContent = told.hidden ? "Show the answer" : "Hide the answer";
    };
    for (const choice of choices)
      choice.addEventListener("click", () => {
        chosen = choice;
        refresh();
      });
    show.addEventListener("click", () => {
      told.hidden = !told.hidden;
      refresh();
    });
    refresh();
    list.replaceWith(html("div", { class: "explorer-choices", role: "group", "aria-labelledby": id }, ...choices),
      html("p", { class: "explorer-verdict", role: "status" }, verdict));
    return [html("p", { class: "explorer-show" }, show), told];
  };

  const start = (box, number) => {
    const name = box.dataset.explorer, explorer = made[name], id = `explorer-${number}`;
    if (!explorer) return;
    const data = JSON.parse(box.querySelector("script[type='application/json']").textContent);
    const controls = data.controls.map((spec) => [spec.name, controlled(spec, `${id}-${spec.name}`)]);
    const form = html("form", { class: "explorer-controls" }, ...controls.map(([, control]) => control.node));
    const stage = html("div", { class: "explorer-stage" });
    const says = html("p", { class: "explorer-says", "aria-live": "polite" });
    const refresh = () => {
      const state = Object.fromEntries(controls.map(([key, control]) => [key, control.read()]));
      const { values, text, draw } = explorer(state, data);
      box.dataset.values = JSON.stringify(values);
      if (says.textContent !== text) says.textContent = text;
      draw(stage, write);
    };
    const write = (changes) => {
      for (const [key, control] of controls) if (key in changes) control.write(changes[key]);
      refresh();
    };
    form.addEventListener("input", refresh);
    form.addEventListener("submit", (event) => event.preventDefault());
    const hint = html("p", { class: "explorer-hint" },
      "Choose an answer. Then test it: drag in the picture, or move a slider.");
    const answer = asked(box, id);
    filled(box, { role: "group", "aria-labelledby": id }, [hint, form, stage, says, ...answer]);
    // Drawn in pixels of the screen, so that text keeps its size: again, where the width is another one.
    let width = -1;
    const fit = () => {
      if (stage.clientWidth !== width) refresh();
      width = stage.clientWidth;
    };
    refresh();
    // Only now: what fails stays hidden.
    box.hidden = false;
    new ResizeObserver(fit).observe(stage);
  };

  // The book's laws for identity covariances, of a task {d, C, noise} and the guess's squared error.
  const variance = ({ noise = 0 }) => noise ** 2;
  const spread = (task) => 2 * task.d + (2 * ((task.d + variance(task)) ** 2 + task.d)) / task.C;
  // log Gamma, by the recurrence and Stirling's series.
  const logGamma = (x) => {
    let below = 0;
    for (; x < 12; x += 1) below += Math.log(x);
    const series = 1 / (12 * x) - 1 / (360 * x ** 3) + 1 / (1260 * x ** 5) - 1 / (1680 * x ** 7);
    return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series - below;
  };
  const laws = {
    // The density of the mean of k squares of standard normal numbers.
    density: (t, k) =>
      t <= 0 ? 0 : Math.exp((k / 2) * Math.log(k / 2) - logGamma(k / 2) + (k / 2 - 1) * Math.log(t) - (k * t) / 2),
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
  window.explorers = { made, laws, charts, chart, frame, html, svg, color, digits, fixed, range, integers };
  document.addEventListener("DOMContentLoaded", () =>
    document.querySelectorAll(".explorer").forEach((box, number) => queueMicrotask(() => start(box, number))));
})();
