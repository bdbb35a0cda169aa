// Bandwidth, latency and more over size or days: charts of the same lines, one legend.
"use strict";
(() => {
  // A point of the data: [bytes or seconds, busbw, low, high, time in us, low, high, wrong, note, ratio to the default,
  // low, high, p99 in us, least and most of the epochs]; null if not known.
  const kinds = {
    ratio: { at: 9, words: (v) => busbar.digits(v) + " × the default's time", padding: 1.05 },
    bandwidth: { at: 1, words: (v) => busbar.digits(v) + " GB/s", padding: 1.2 },
    latency: { at: 4, words: busbar.time, padding: 1.2, ofTimes: true },
  };
  // Powers of two, at most nine, that the eye can read off.
  const sizeTicks = ({ min, max }) => {
    const first = Math.ceil(Math.log2(min)), last = Math.floor(Math.log2(max)), step = Math.max(1, Math.ceil((last - first) / 8));
    return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => 2 ** (first + i * step));
  };
  const valueTicks = ({ min, max, linear }) => {
    const decades = Math.log10(max / min), factors = decades > 3.5 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
    const exponents = Array.from({ length: Math.ceil(decades) + 2 }, (_, i) => Math.floor(Math.log10(min)) + i);
    const ticks = linear ? [] : exponents.flatMap((e) => factors.map((f) => f * 10 ** e)).filter((v) => v >= min && v <= max);
    if (ticks.length > 1) return ticks;
    const coarse = 10 ** Math.floor(Math.log10((max - min) / 2)), step = (max - min) / coarse > 8 ? 4 * coarse : coarse;
    return Array.from({ length: 9 }, (_, i) => (Math.ceil(min / step) + i) * step).filter((v) => v <= max);
  };
  const range = (values, padding) => {
    const known = values.filter((v) => v > 0);
    return known.length === 0 ? { min: 0.1, max: 10 } : { min: Math.min(...known) / padding, max: Math.max(...known) * padding };
  };
  // What a shown point of a kind has, in the order of a point's numbers.
  const numbers = (p, kind) => [...p.slice(kind.at, kind.at + 3), ...(kind.ofTimes ? p.slice(12, 15) : [])];
  const wordsFor = (p, kind) => {
    const [value, low, high, p99] = numbers(p, kind), bound = kind.ofTimes ? busbar.time : busbar.digits;
    const bounds = low !== null && high !== null ? ` [${bound(low)} to ${bound(high)}]` : "";
    return kind.words(value) + bounds + (p99 > 0 ? `, p99 ${busbar.time(p99)}` : "") +
      (p[7] > 0 ? `; ${p[7]} WRONG elements` : "") + (p[8] ? "; " + p[8] : "");
  };

  const setUp = (section, { series, days }) => {
    const legend = section.querySelector(".legend"), points = series.flatMap((s) => s.points);
    const dayOf = (x) => points.find((p) => p[0] === x)[8], where = (x) => (days ? dayOf(x).slice(0, 16) : busbar.bytes(x));
    const places = () => [...new Set(series.filter((s) => !s.off).flatMap((s) => s.points.map((p) => p[0])))]
      .filter((x) => x > 0).sort((a, b) => a - b);
    const dayTicks = (x) => {
      const hours = new Set(points.map((p) => p[8].slice(0, 10))).size === 1, ticks = [];
      for (const v of places()) if (ticks.length === 0 || v - ticks.at(-1) >= (x.max - x.min) / 6) ticks.push(v);
      return ticks.map((v) => [v, hours ? dayOf(v).slice(11, 16) : dayOf(v).slice(0, 10)]);
    };
    const line = (s, i, kind, of) => {
      const look = busbar.look(s, i), known = s.points.filter((p) => p[0] > 0 && p[kind.at] > 0);
      const path = (column) => column.map(([x, y], n) => `${n ? "L" : "M"}${of.x(x).toFixed(1)} ${of.y(y).toFixed(1)}`).join("");
      const column = (at) => known.filter((p) => p[at] > 0).map((p) => [p[0], p[at]]);
      const band = (low) => path([...column(low), ...column(low + 1).reverse()]) || "M0 0";
      const mark = (p) => busbar.svg("path", { class: p[7] > 0 ? "wrong" : "mark", d:
        `M${of.x(p[0]).toFixed(1)} ${of.y(p[kind.at]).toFixed(1)}` + (p[7] > 0 ? busbar.wrong : look.mark) });
      const draw = (name, d) => busbar.svg("path", { class: name, d });
      const times = kind.ofTimes ? [draw("band of-epochs", band(13)), draw("stroke p99", path(column(12)))] : [];
      return busbar.svg("g", { style: `color:var(--${look.colour})` }, ...times, draw("band", band(kind.at + 1)),
        busbar.svg("path", { class: "stroke", d: path(column(kind.at)), "stroke-dasharray": look.dash }),
        ...(s.expected ? [] : known.map(mark)));
    };
    const setUpFigure = (figure) => {
      const kind = kinds[figure.dataset.kind], svg = figure.querySelector("svg"), shown = points.filter((p) => p[kind.at] > 0);
      if (shown.length === 0) return figure.remove();
      let of, groups, pointer;
      const draw = (linear) => {
        const y = { ...range(shown.flatMap((p) => numbers(p, kind)), kind.padding), linear };
        if (linear) y.min = 0;
        const x = range(shown.map((p) => p[0]), days ? 1 : 1.25);
        if (days) Object.assign(x, { min: x.min - 1 - (x.max - x.min) / 30, max: x.max + 1 + (x.max - x.min) / 30, linear: true });
        y.ticks = valueTicks(y).map((v) => [v, kind.ofTimes ? busbar.timeTick(v) : String(Number(v.toPrecision(3)))]);
        x.ticks = days ? dayTicks(x) : sizeTicks(x).map((v) => [v, busbar.bytes(v).replace("iB", "")]);
        of = busbar.axes(svg, x, y, days ? "" : "size [bytes]");
        groups = series.map((s, i) => line(s, i, kind, of));
        pointer = busbar.svg("path", { class: "pointer" });
        svg.append(pointer, ...groups);
      };
      draw(false);
      const hide = busbar.explore(svg, section.querySelector(".readout"), {
        under: (px) => places().reduce((a, b) => (Math.abs(of.x(b) - px) < Math.abs(of.x(a) - px) ? b : a), places()[0] ?? null),
        step: (key, current) => busbar.along(places(), key, current),
        mark: (place) => pointer.setAttribute("d", place === null ? "" : `M${of.x(place)} ${of.top}V${of.bottom}`),
        words: (place) => ({ x: of.x(place), y: 60, title: where(place), rows: series
          .map((s, i) => ({ s, p: s.points.find((p) => p[0] === place), swatch: busbar.swatch(busbar.look(s, i)) }))
          .filter(({ s, p }) => p && !s.off && p[kind.at] > 0)
          .map(({ s, p, swatch }) => ({ swatch, name: s.label, value: wordsFor(p, kind) })) }),
      });
      return { hide, show: (i, is) => { groups[i].style.display = is ? "" : "none"; },
        draw: kind === kinds.bandwidth ? draw : () => {} };
    };
    const sides = [...section.querySelectorAll("figure")].map(setUpFigure).filter((side) => side);
    const addSwitch = (words, checked, change) => {
      const label = busbar.element("label"), box = busbar.element("input", null, { type: "checkbox" });
      box.checked = checked;
      box.addEventListener("change", () => { label.classList.toggle("off", !box.checked); change(box.checked); });
      label.append(box, ...words);
      legend.append(label);
      return label;
    };
    const showLines = () => sides.forEach((side) => { side.hide(); series.forEach((s, i) => side.show(i, !s.off)); });
    series.forEach((s, i) => addSwitch([busbar.swatch(busbar.look(s, i)), busbar.element("span", s.label)], true,
      (on) => { s.off = !on; showLines(); }));
    addSwitch([busbar.element("b", "linear bandwidth axis")], false, (on) => { sides.forEach((s) => s.draw(on)); showLines(); })
      .classList.add("hint");
  };
  document.querySelectorAll("section[data-chart]").forEach((s) => setUp(s, busbar.data.charts[Number(s.dataset.chart)]));
})();
