// Pairs: each square is one, darker the slower.
"use strict";
(() => {
  const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
  const value = Object.fromEntries([...digits].map((c, i) => [c, i]));
  // From shares of the median to colors.
  const stops = [[0, [74, 18, 0]], [0.5, [178, 58, 6]], [1, [227, 237, 245]], [1.5, [127, 178, 214]]];
  const colour = (share) => {
    const i = Math.min(2, Math.floor(share * 2)), [[from, a], [, b]] = [stops[i], stops[i + 1]];
    return a.map((v, k) => v + (b[k] - v) * Math.min(1, (share - from) * 2));
  };
  const setUp = (section, map) => {
    const n = map.names.length, svg = section.querySelector("svg");
    const cell = Math.max(1, Math.min(n <= 12 ? 44 : 30, Math.floor(600 / n))), every = Math.max(1, Math.ceil(13 / cell));
    const shown = (name) => (name.length > 16 ? name.slice(0, 7) + "\u2026" + name.slice(-8) : name);
    const margin = 12 + 7 * Math.max(...map.names.map((name) => shown(name).length)), side = margin + n * cell + 2;
    const at = (i) => margin + i * cell, middle = (i) => at(i) + cell / 2;
    const share = ([row, column]) => {
      const place = 2 * (row * n + column);
      return (value[map.grid[place]] * 64 + value[map.grid[place + 1]]) / 1000;
    };
    const is_slow = (of) => of > 0 && map.threshold > 0 && of < map.threshold;

    // A pixel a square, made large by the picture.
    const pixels = busbar.element("canvas", null, { width: n, height: n }), context = pixels.getContext("2d");
    const image = context.createImageData(n, n), crosses = ["", ""];
    for (let i = 0; i < n * n; ++i) {
      const place = [Math.floor(i / n), i % n], of = share(place);
      if (of > 0) image.data.set([...colour(of), 255], 4 * i);
      // Not by color alone.
      if (cell >= 9 && is_slow(of)) {
        const size = cell * 0.4, [x, y] = [at(place[1]) + cell * 0.3, at(place[0]) + cell * 0.3];
        crosses[of > 0.6 ? 0 : 1] += `M${x} ${y}l${size} ${size}m0-${size}l-${size} ${size}`;
      }
    }
    context.putImageData(image, 0, 0);
    const frame = busbar.svg("rect", { class: "frame", width: cell, height: cell });
    // A name to blame pushes its neighbors' names aside.
    const named = map.names.map((_, i) => i).filter((i) => map.blamed.includes(i) ||
      (i % every === 0 && !map.blamed.some((b) => Math.abs(b - i) < every)));
    const label = (i, place) => busbar.svg("text", { ...place, class: map.blamed.includes(i) ? "blamed" : "" }, shown(map.names[i]));
    svg.setAttribute("viewBox", `0 0 ${side} ${side}`);
    svg.setAttribute("width", side);
    const square = { x: margin, y: margin, width: n * cell, height: n * cell };
    svg.append(busbar.svg("foreignObject", square, pixels), busbar.svg("path", { class: "cross", d: crosses[0] }),
      busbar.svg("path", { class: "cross on-dark", d: crosses[1] }), busbar.svg("rect", { class: "border", ...square }), frame,
      ...named.map((i) => label(i, { x: margin - 5, y: middle(i) + 4, "text-anchor": "end" })),
      ...named.map((i) => label(i, { transform: `translate(${middle(i) + 4} ${margin - 5}) rotate(-90)` })));

    section.querySelector(".colours").style.background = `linear-gradient(90deg, ${stops.map(([, c]) => `rgb(${c})`)})`;
    const inside = (v) => v >= 0 && v < n, clamp = (v) => Math.max(0, Math.min(n - 1, v));
    busbar.explore(svg, section.querySelector(".readout"), {
      under: (x, y) => {
        const place = [Math.floor((y - margin) / cell), Math.floor((x - margin) / cell)];
        return place.every(inside) ? place : null;
      },
      step: (key, current) => {
        const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[key];
        return step && (current ? current.map((v, k) => clamp(v + step[k])) : [0, clamp(1)]);
      },
      mark: (place) => {
        frame.style.display = place ? "" : "none";
        if (place) { frame.setAttribute("x", at(place[1])); frame.setAttribute("y", at(place[0])); }
      },
      words: (place) => {
        const [row, column] = place, of = share(place), slow = is_slow(of) ? ", slow" : "";
        const text = of > 0 ? `${busbar.digits(of * map.median)} GB/s, ${of.toFixed(2)} of the median${slow}`
          : row === column ? "itself" : "not measured";
        return { x: at(column) + cell, y: at(row), rows: [{ value: text }],
          title: `${map.names[row]} ${map.one_way ? "\u2192" : "\u2194"} ${map.names[column]}` };
      },
    });
  };
  document.querySelectorAll("section[data-matrix]").forEach((s) => setUp(s, busbar.data.matrices[Number(s.dataset.matrix)]));
})();
