// A cloud of points and one more: the best ellipse x'Mx = 1, and what a wrong guess costs.
(() => {
  "use strict";
  const { made, charts, digits, range } = window.explorers;
  const products = ([x, y]) => [x * x, 2 * x * y, y * y];
  const dot = (a, b) => a.reduce((sum, value, k) => sum + value * b[k], 0);
  const determinant = ([a, b, c]) =>
    a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) + a[2] * (b[0] * c[1] - b[1] * c[0]);
  // Least squares of the constant 1 on the products of two features, by Cramer's rule.
  const least = (rows) => {
    const gram = [0, 1, 2].map((i) => [0, 1, 2].map((j) => dot(rows.map((row) => row[i]), rows.map((row) => row[j]))));
    const sums = [0, 1, 2].map((i) => rows.reduce((sum, row) => sum + row[i], 0)), whole = determinant(gram);
    return sums.map((_, k) => determinant(gram.map((row, i) => row.map((g, j) => (j === k ? sums[i] : g)))) / whole);
  };

  made.cloud = ({ cloud, C, x, y }, { clouds, plane }) => {
    const points = [...clouds[cloud], [x, y]], rows = points.map(products), M = least(rows);
    const forms = rows.map((row) => dot(row, M)), mean = forms.reduce((sum, h) => sum + h, 0) / rows.length;
    const e1 = forms.reduce((sum, h) => sum + (1 - h) ** 2, 0) / rows.length, share = e1 / (e1 + C * (1 - e1));
    const values = { e1, share };
    // The curve on which the form has its mean: in each direction the point at which it does, if there is one.
    const at = (angle) => {
      const way = [Math.cos(angle), Math.sin(angle)], h = dot(products(way), M) / mean;
      return h > 0.01 ? way.map((entry) => entry / Math.sqrt(h)) : null;
    };
    const pieces = range(0, 2 * Math.PI, 360).map(at).reduce((found, point) => {
      if (point) found.at(-1).push(point);
      else if (found.at(-1).length) found.push([]);
      return found;
    }, [[]]).filter((piece) => piece.length > 1);
    const spec = {
      title: "The points, and the best curve on which a quadratic form is constant",
      x: { label: "first feature", domain: plane[0] },
      y: { label: "second feature", domain: plane[1] },
      aspect: 1,
      widest: 584, // so that the whole figure fits on a small screen
      lines: pieces.map((piece, k) => ({ name: k ? "" : "best xᵀMx = constant", color: "yq", points: piece })),
      dots: [...clouds[cloud].map(([a, b]) => ({ color: "lsa", x: a, y: b, open: true })),
        { color: "other", x, y, grip: true }],
      drag: (a, b) => ({ x: a, y: b }), free: true,
    };
    const text = `In one token the best form misses e₁ = ${digits(e1)} of the constant. With C = ${C} such tokens in a context, `
      + `${digits(share)} of the guess’s squared error remains. The filled point is the one that you can move.`;
    return { values, text, draw: charts(spec) };
  };
})();
