// What an interactive figure shows: window.drawn.* read its box, and `set` moves its controls.
(() => {
  "use strict";
  const controls = (box) => JSON.parse(box.querySelector("script").textContent).controls;
  const all = (selector, root) => [...root.querySelectorAll(selector)];

  // Sets controls; returns the figure's numbers and what it says.
  const set = (box, state) => {
    for (const [name, value] of Object.entries(state)) {
      const input = box.querySelector(`[name=${name}]`), { values } = controls(box).find((control) => control.name === name);
      input.value = values ? values.indexOf(value) : value;
      input.dispatchEvent(new Event("input", { bubbles: true }));
    }
    return [JSON.parse(box.dataset.values), box.querySelector(".explorer-says").textContent];
  };

  const sliders = (box) => Object.fromEntries(controls(box).filter(({ options }) => !options).map(({ name, values }) => {
    const at = Number(box.querySelector(`[name=${name}]`).value);
    return [name, values ? values[at] : at];
  }));

  // Of each chart: its curves as [ink, points in pixels], its dots as [ink, x, y], the ticks of both axes as [value, pixel].
  const charts = (box) => all("svg[role=img]:has(.explorer-axes)", box).map((chart) => {
    const number = (text) => Number(text.textContent.replace(/,/g, "").replace("−", "-"));
    const texts = all(".explorer-axes text", chart).filter((text) => !Number.isNaN(number(text)));
    const side = (anchor, place) => texts.filter((text) => text.getAttribute("text-anchor") === anchor)
      .map((text) => [number(text), place(text)]);
    return {
      x: side("middle", (text) => text.x.baseVal[0].value),
      y: side("end", (text) => text.y.baseVal[0].value - 4),
      lines: all("path.explorer-line", chart).map((line) => [line.style.stroke,
        line.getAttribute("d").match(/-?[\d.]+ -?[\d.]+/g).map((point) => point.split(" ").map(Number))]),
      dots: all("circle", chart).map((dot) => [dot.style.stroke, dot.cx.baseVal.value, dot.cy.baseVal.value]),
    };
  });

  // Of each picture of a head: its label, and its cells as [column, row, opacity, ink].
  const heads = (box) => all("svg[role=img]", box).map((head) => [head.ariaLabel,
    all("rect:not(.explorer-border)", head).map((cell) =>
      [cell.x.baseVal.value, cell.y.baseVal.value, Number(cell.getAttribute("opacity")), cell.style.fill])]);

  window.drawn = { set, sliders, charts, heads };
})();
