/* Interactive figures: the arrays that a page's cell computed, as curves over x for each position of the sliders. */
(() => {
  "use strict";
  const digits = (value) => Math.abs(value) < 1e-4 && value !== 0 ? value.toExponential(3).replaceAll("-", "−")
    : value.toLocaleString("en", { maximumSignificantDigits: 4 }).replace("-", "−");
  const safe = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const made = (html) => document.createRange().createContextualFragment(html).firstElementChild;
  const nearest = (values, far) =>
    values.reduce((best, value, k) => (far(value) < far(values[best]) ? k : best), 0);

  /* From a value to its pixel, along an axis that goes from one pixel to another. */
  const scale = ({ ends, log }, from, to) => {
    const [value, low, high] = [Number, ...ends];
    const at = log ? Math.log : value;
    return (v) => from + ((at(v) - at(low)) / (at(high) - at(low))) * (to - from);
  };

  /* The heights nearest to those wanted, from the top, at which lines of text do not meet. */
  const apart = (wanted, least, most, size = 17) => {
    const order = wanted.map((y, k) => k).sort((a, b) => wanted[a] - wanted[b]), places = [...wanted];
    const fit = (k, low, high) => { places[k] = Math.min(Math.max(places[k], low), high); };
    order.forEach((k, n) => fit(k, n ? places[order[n - 1]] + size : least, Infinity));
    order.reverse().forEach((k, n) => fit(k, -Infinity, n ? places[order[n - 1]] - size : most));
    return places;
  };

  const start = (box) => {
    const { x, y, sliders, lines } = JSON.parse(box.querySelector("script").textContent), own = sliders.at(-1);
    const stage = made('<div class="explorer-stage"></div>'), frame = made('<div class="explorer-frame"></div>');
    const says = made('<p class="explorer-says" aria-live="polite"></p>');
    const controls = made('<div class="explorer-controls"></div>');
    const inputs = sliders.map(({ label, texts, at }) => {
      const control = made(`<div><label>${safe(label)} <b aria-hidden="true"></b><input type="range" min="0" max="${texts.length - 1}"></label></div>`);
      controls.append(control);
      const input = control.querySelector("input");
      input.value = at;
      return input;
    });
    controls.prepend(controls.lastChild); // that of x
    const position = () => inputs.map((input) => Number(input.value));

    /* What the sliders choose of an array: a curve, or a level, which has one value. An axis of length one has one place. */
    const shown = (values) => position().slice(0, -1).reduce((part, k) => part[Math.min(k, part.length - 1)], values);

    const draw = () => {
      const width = stage.clientWidth, wide = width > 560, now = position().at(-1);
      const left = 54, top = 28, height = wide ? 320 : 264, bottom = height - 44;
      const longest = Math.max(...lines.map(({ name }) => name.length));
      const right = width - (wide ? Math.min(7.2 * longest + 14, 0.4 * width) : 26);
      const X = scale(x, left, right), Y = scale(y, bottom, top);
      const parts = lines.map((line) => ({ ...line, curve: shown(line.values) }));
      const value = ({ curve }) => (curve.length > 1 ? curve[now] : curve[0]);

      let last = -Infinity;
      const ticks = x.ticks.filter(([at]) => X(at) - last > 36 && (last = X(at))).map(([at, text]) =>
        `<path d="M${X(at)} ${bottom}v5"/><text x="${X(at)}" y="${bottom + 19}" text-anchor="middle">${text}</text>`);
      const rungs = y.ticks.map(([at, text]) =>
        `<path d="M${left - 5} ${Y(at)}h5"/><text x="${left - 8}" y="${Y(at) + 4}" text-anchor="end">${text}</text>`);
      const path = (curve) => curve.map((v, k) => (v === null ? "" : `${k && curve[k - 1] !== null ? "L" : "M"}${X(x.values[k])} ${Y(v)}`)).join("");
      const drawn = parts.filter(({ curve }) => curve.some((v) => v !== null)).map(({ curve, color }) => `<path style="stroke: var(--fig-${color})" ${
        curve.length > 1 ? `d="${path(curve)}"` : `stroke-dasharray="7 5" d="M${left} ${Y(curve[0])}H${right}"`}/>`);
      const dots = parts.filter((part) => part.curve.length > 1 && value(part) !== null).map((part) =>
        `<circle r="15" opacity="0.25" cx="${X(x.values[now])}" cy="${Y(value(part))}" style="fill: var(--fig-${part.color})"/>
         <circle r="5.5" cx="${X(x.values[now])}" cy="${Y(value(part))}" style="fill: var(--fig-${part.color})"/>`);
      /* A name stands at the end of its line: behind it or, on a small screen, above or below, where the line is not. */
      const named = parts.map((part) => ({ ...part, ends: part.curve.filter((v) => v !== null).slice(-2) }))
        .filter(({ ends }) => ends.length);
      const ending = ({ ends }) => Y(ends.at(-1));
      const gaps = (part) => named.map((other) => ending(part) - ending(other));
      const underAnother = (part) => gaps(part).some((gap) => gap > 0 && gap < 18);
      const below = (part) => part.ends.at(-1) < part.ends[0] || underAnother(part);
      const beside = (part) => ending(part) + (wide ? 4 : below(part) ? 15 : -7);
      const places = apart(named.map(beside), top, bottom - 4);
      const names = named.map(({ name, color }, k) => `<text x="${wide ? right + 10 : right}" y="${places[k]}"
        text-anchor="${wide ? "start" : "end"}" style="fill: var(--fig-${color})">${safe(name)}</text>`);

      frame.innerHTML = `<svg role="img" aria-label="${safe(y.label)} against ${safe(x.label)}" width="${width}" height="${height}">
        <g class="explorer-axes"><path d="M${left} ${top}V${bottom}H${right}"/>${ticks.join("")}${rungs.join("")}
        <text x="${(left + right) / 2}" y="${height - 6}" text-anchor="middle">${safe(x.label)}</text>
        <text x="0" y="14">${safe(y.label)}</text></g>
        <path class="explorer-at" d="M${X(x.values[now])} ${top}V${bottom}"/>
        <svg class="explorer-lines" x="${left}" y="${top - 4}" width="${right - left}" height="${bottom - top + 8}"
          viewBox="${left} ${top - 4} ${right - left} ${bottom - top + 8}">${drawn.join("")}</svg>
        <g class="explorer-dots">${dots.join("")}</g><g class="explorer-names">${names.join("")}</g></svg>`;
      sliders.forEach(({ label, texts }, k) => {
        const text = texts[inputs[k].value];
        inputs[k].setAttribute("aria-valuetext", text);
        inputs[k].previousElementSibling.textContent = text;
      });
      says.textContent = `At ${own.label} = ${own.texts[now]}: ${parts.filter((part) => value(part) !== null)
        .map((part) => `${part.name} ${digits(value(part))}`).join("; ")}.`;
      /* The value of x nearest to the pointer. */
      frame.move = (event) => {
        const pixel = event.clientX - frame.getBoundingClientRect().left;
        inputs.at(-1).value = nearest(x.values, (v) => Math.abs(X(v) - pixel));
        draw();
      };
    };

    /* A mouse drags at once. A finger drags when it moves sideways or lifts where it was; up or down it scrolls the page. */
    let began = null, follows = false;
    const gone = (event) => [event.clientX - began.clientX, event.clientY - began.clientY].map(Math.abs);
    const end = () => { began = null; };
    frame.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      began = event;
      follows = event.pointerType === "mouse";
      frame.setPointerCapture(event.pointerId);
      if (follows) frame.move(event);
    });
    frame.addEventListener("pointermove", (event) => {
      if (!began) return;
      const [across, along] = gone(event);
      follows ||= across > Math.max(along, 6);
      if (follows) frame.move(event);
    });
    frame.addEventListener("pointerup", (event) => {
      if (began && !follows && Math.max(...gone(event)) < 6) frame.move(event);
      end();
    });
    frame.addEventListener("pointercancel", end);

    controls.addEventListener("input", draw);
    /* Escape closes the answers, or puts the sliders back to where they began. */
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      if (controls.contains(event.target)) inputs.forEach((input, k) => { input.value = sliders[k].at; });
      else box.querySelectorAll("details").forEach((answer) => { answer.open = false; });
      draw();
    });
    stage.append(frame);
    box.append(made("<p class=\"explorer-hint\">Choose an answer. Then test it: drag in the picture, or move a slider.</p>"),
      stage, controls, says);
    let width = 0;
    new ResizeObserver(() => {
      const old = width;
      width = stage.clientWidth;
      if (width && width !== old) draw();
    }).observe(stage);
  };

  document.querySelectorAll(".explorer").forEach(start);
})();
