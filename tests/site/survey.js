// What a reader would stumble over on an open page: each function returns a list of defects, empty for a sound page.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const seen = (e) => e.checkVisibility({ visibilityProperty: true });
  const begin = (e) => e.outerHTML.slice(0, 90).replace(/\s+/g, " ");
  // [red, green, blue, opacity], each from 0 to 1.
  const rgba = (css) => {
    const [red, green, blue, opacity = 1] = css.match(/-?[\d.]+(e-\d+)?/g).map(Number);
    return [...[red, green, blue].map((value) => (css.startsWith("color") ? value : value / 255)), opacity];
  };
  const over = ([red, green, blue, opacity], below) =>
    [...[red, green, blue].map((value, k) => opacity * value + (1 - opacity) * below[k]), 1];
  const luminance = (rgb) => {
    const [red, green, blue] = rgb.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  // The contrast ratio of WCAG 2, from 1 to 21.
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const remembered = (of) => {
    const known = new Map();
    return (e) => known.has(e) ? known.get(e) : known.set(e, of(e)).get(e);
  };
  // What lies behind an element's text, and how opaque the element is with all around it; looked up once in a theme.
  let ground, veil;
  const lookAgain = () => {
    ground = remembered((e) => {
      const own = rgba(getComputedStyle(e).backgroundColor);
      return own[3] === 1 ? own : over(own, e.parentElement ? ground(e.parentElement) : [1, 1, 1, 1]);
    });
    veil = remembered((e) => getComputedStyle(e).opacity * (e.parentElement ? veil(e.parentElement) : 1));
  };
  lookAgain();

  const structure = () => {
    // A drawing may be named by its own title.
    const name = (e) => e.ariaLabel ?? e.ariaLabelledByElements?.map((part) => part.textContent).join(" ");
    const images = all("article :is(img, svg[role=img])").map((e) => [e, e.matches("img") ? e.alt : name(e)]);
    const places = Map.groupBy(
      // The theme's own links, and an index, whose links stand below the name that each is of.
      all("article a[href]:not(.headerlink)").filter((e) => seen(e) && !e.closest(".prev-next-area, .indextable") && !e.querySelector(".viewcode-link") && !e.matches(".viewcode-back")),
      (e) => e.getAttribute("aria-label") ?? e.textContent.trim() + e.title + (e.querySelector("img")?.alt ?? ""),
    );
    const many = [...places].filter(([, links]) => new Set(links.map((link) => link.href)).size > 1);
    const unset = all(".math").filter((e) => e.querySelector("merror, mtext[style*=color]") || !e.querySelector("math[alttext]"));
    const roots = all("article msqrt").filter(seen)
      .filter((e) => e.getBoundingClientRect().right - e.lastElementChild.getBoundingClientRect().right >= 1);
    const font = !document.querySelector(".math") || document.fonts.check("16px 'Book Math'");
    return [
      ...unset.map((e) => `formula not set: ${e.textContent.trim()}`),
      ...roots.map((e) => `a root wider than its content: ${e.textContent}`),
      ...(font ? [] : ["formulas without their font"]),
      ...images.filter(([e]) => e.matches("img") && !e.naturalWidth).map(([e]) => `image not shown: ${begin(e)}`),
      ...images.filter(([, alt]) => !alt?.trim() || /\.(png|svg|jpe?g|gif)$/.test(alt)).map(([e]) => `no alt text: ${begin(e)}`),
      ...many.map(([name, links]) => `${links.length} links to different places are called '${name}'`),
      ...rings(),
    ];
  };

  // What can be reached by key and shows no ring when it is.
  const rings = () => {
    const ring = (e) => (({ outlineStyle, outlineWidth, boxShadow }) => [outlineStyle, outlineWidth, boxShadow])(getComputedStyle(e));
    const bare = all("a[href], button, input, select, summary, [tabindex='0']").filter(seen).filter((e) => {
      document.activeElement?.blur();
      const shadow = ring(e)[2];
      e.focus({ preventScroll: true });
      const ringed = [e, ...all("*", e)].map(ring).some(([style, width]) => style !== "none" && width !== "0px");
      return document.activeElement === e && !ringed && ring(e)[2] === shadow;
    });
    document.activeElement?.blur();
    return bare.map((e) => `no focus ring: ${begin(e)}`);
  };

  // Sideways scrolling, what a box cuts off, and controls that are hard to hit.
  const layout = () => {
    const root = document.documentElement, overflow = (e) => getComputedStyle(e).overflowX;
    const cut = all("article *").filter((e) => overflow(e) === "hidden" && e.clientWidth > 1
      && !e.closest(".visually-hidden") && e.scrollWidth > e.clientWidth + 1);
    const inside = (e) => !e.matches("article") && (overflow(e) !== "visible" || inside(e.parentElement));
    const wide = root.scrollWidth <= root.clientWidth ? []
      : all("article *").filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1 && !inside(e.parentElement));
    const controls = all("article :is(summary, button, select, input, [role=button], .prev-next-area a)").filter(seen)
      .map((e) => (e.matches("[type=checkbox], [type=radio]") ? (e.closest("label") ?? e) : e))
      .map((e) => [e, e.getBoundingClientRect()]);
    return [
      ...(root.scrollWidth > root.clientWidth ? [`page of ${root.scrollWidth} px on ${root.clientWidth} px`] : []),
      ...wide.slice(0, 5).map((e) => `sticks out: ${begin(e)}`),
      ...cut.map((e) => `cut off: ${begin(e)}`),
      ...controls.filter(([, { width, height }]) => width && Math.min(width, height) < 23.5).map(([e]) => `hard to hit: ${begin(e)}`),
    ];
  };

  // Figures whose letters are smaller than `least` pixels. A drawing's words are outlines in units of its font, `em` to a letter.
  const letters = ([least, em]) => all("article :is(svg[role=img], img[src*='.svg'])").flatMap((figure) => {
    const size = (e) => {
      const { c, d } = e.getScreenCTM();
      return Math.hypot(c, d) * (e.matches("text") ? parseFloat(getComputedStyle(e).fontSize) : em);
    };
    const sizes = all("text, [id*='text_'] g:has(> use)", figure).map(size).filter(Boolean), name = figure.ariaLabel ?? figure.alt;
    if (!sizes.length) return figure.matches(".drawing, img") ? [`figure without words: ${name}`] : [];
    return Math.min(...sizes) < least ? [`letters of ${Math.min(...sizes).toFixed(1)} px: ${name}`] : [];
  });

  // Words that are hard to read: their contrast on what lies behind them, by WCAG 2. Words of figures are inks.
  const words = () => {
    const pale = new Map(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode.data.trim(), e = walker.currentNode.parentElement;
      if (!text || e.closest("svg, script, style, noscript, .visually-hidden") || !seen(e) || veil(e) < 0.1) continue;
      const { color, fontSize, fontWeight } = getComputedStyle(e), size = parseFloat(fontSize), [r, g, b, a] = rgba(color);
      const least = size >= 24 || (size >= 18.66 && fontWeight >= 700) ? 3 : 4.5;
      const ratio = contrast(over([r, g, b, a * veil(e)], ground(e)), ground(e));
      if (ratio < least - 0.005) pale.set(`${color} ${ground(e)}`, `pale, ${ratio.toFixed(2)}: ${text.slice(0, 40)}, ${begin(e)}`);
    }
    return [...pale.values()];
  };

  // Inks of a figure that do not stand out from the page, and words that cannot be read; veils do not count.
  const inks = () => all("article :is(svg.drawing, .explorer-stage svg[role=img])").flatMap((figure) => {
    const inside = (e) => (e.matches("svg") ? 1 : getComputedStyle(e).opacity * inside(e.parentElement));
    const used = all("path, use, rect, line, polyline, polygon, circle, text", figure)
      .filter((e) => !e.closest("defs, clipPath, .explorer-at")).flatMap((e) => {
        const { fill, stroke, fillOpacity, strokeOpacity } = getComputedStyle(e);
        const words = e.matches("text") || Boolean(e.closest("[id*='text_']"));
        // The stroke of a text is the ground around it.
        return [[e.matches("line") ? "none" : fill, fillOpacity], [e.matches("text") ? "none" : stroke, strokeOpacity]]
          .filter(([ink, opacity]) => ink !== "none" && opacity * inside(e) >= 0.5).map(([ink]) => `${ink}|${words ? 4.5 : 3}`);
      });
    const pale = [...new Set(used)].map((key) => key.split("|"))
      .filter(([ink, least]) => contrast(rgba(ink), ground(figure)) < least);
    return pale.map(([ink]) => `ink ${ink} on ${ground(figure)}: ${figure.ariaLabel}`);
  });

  // Folds open or close; what this changes is drawn when the promise is kept.
  const fold = async (open) => {
    all("article details").forEach((details) => { details.open = open; });
    for (const _ of [1, 2, 3]) await new Promise(requestAnimationFrame);
    await Promise.all(document.getAnimations().map((move) => move.finished));
  };
  const theme = (name) => {
    Object.assign(document.documentElement.dataset, { theme: name, mode: name });
    lookAgain();
    return fold(true);
  };

  // How far the layout jumped while the page came.
  const shift = () => new Promise((done) => {
    let sum = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((e) => { if (!e.hadRecentInput) sum += e.value; }))
      .observe({ type: "layout-shift", buffered: true });
    setTimeout(() => done(sum > 0.05 ? [`the layout jumps by ${sum.toFixed(2)}`] : []), 200);
  });

  window.survey = { structure, layout, letters, words, inks, fold, theme, shift };
})();
