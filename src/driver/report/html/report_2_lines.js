// Bandwidth, latency and more over size or days: charts of the same lines, one legend, one pointer.
"use strict";
(() => {
  // A point of the data: [bytes or seconds, busbw, low, high, time in us, low, high, wrong, note, ratio to the default,
  // low, high, p99 in us, least and most of the epochs]; null if not known.
  const times = (v) => digits(v) + " \u00d7 the default's time", digits = (v) => String(Number(v.toPrecision(3)));
  const kinds = {
    ratio: { at: 9, words: times, interval: (low, high) => digits(low) + ", " + digits(high), label: "time against the default" },
    bandwidth: { at: 1, words: busbar.bandwidth, interval: busbar.bandwidths, label: "bus bandwidth" },
    latency: { at: 4, words: busbar.time, interval: busbar.times, label: "time" },
  };

  // Powers of two, at most nine, that the eye can read off.
  const sizeTicks = (min, max) => {
    const first = Math.ceil(Math.log2(min)), last = Math.floor(Math.log2(max));
    const step = Math.max(1, Math.ceil((last - first) / 8));
    const ticks = [];
    for (let e = first; e <= last; e += step) ticks.push({ value: 2 ** e });
    return ticks;
  };
  const valueTicks = (min, max) => {
    const decades = Math.log10(max / min);
    const factors = decades > 3.5 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
    const ticks = [];
    for (let e = Math.floor(Math.log10(min)); e <= Math.log10(max); ++e) {
      for (const f of factors) {
        const value = f * 10 ** e;
        if (value >= min && value <= max) ticks.push({ value });
      }
    }
    if (ticks.length > 1) return ticks;
    let step = 10 ** Math.floor(Math.log10((max - min) / 2));
    if ((max - min) / step > 8) step *= 4;
    return Array.from({ length: 9 }, (_, i) => ({ value: (Math.ceil(min / step) + i) * step })).filter((t) => t.value <= max);
  };
  const dayOf = (series, seconds) => series.flatMap((s) => s.points).find((p) => p[0] === seconds)[8];
  const dayTicks = (series) => {
    const all = [...new Set(series.flatMap((s) => s.points.map((p) => p[0])))].sort((a, b) => a - b);
    const apart = (all[all.length - 1] - all[0]) / 5;
    return all.filter((x, i) => { const free = i === 0 || x - all.last >= apart; if (free) all.last = x; return free; }).map((value) => ({ value }));
  };

  const pointerLine = {
    id: "pointer",
    afterDatasetsDraw(chart) {
      if (!chart.pointerAt) return;
      const x = chart.scales.x.getPixelForValue(chart.pointerAt), { top, bottom } = chart.chartArea;
      chart.ctx.save();
      chart.ctx.strokeStyle = busbar.colour("faint");
      chart.ctx.setLineDash([3, 3]);
      chart.ctx.beginPath();
      chart.ctx.moveTo(x, top);
      chart.ctx.lineTo(x, bottom);
      chart.ctx.stroke();
      chart.ctx.restore();
    },
  };

  const range = (values, padding) => {
    const known = values.filter((v) => v > 0);
    if (known.length === 0) return { min: 0.1, max: 10 };
    return { min: Math.min(...known) / padding, max: Math.max(...known) * padding };
  };

  const transparent = (colour, share) => {
    const n = parseInt(colour.slice(1), 16);
    return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${share})`;
  };

  // Six datasets a line: the band's lower edge, its upper edge filled down to it, the line itself; of times also the
  // edges of what the epochs span, in a lighter shade, and the dotted line of p99.
  const kSets = 6;
  const datasets = (series, kind) => series.flatMap((s, i) => {
    const look = busbar.look(s, i), colour = busbar.colour(look.colour);
    const points = s.points.filter((p) => p[0] > 0 && p[kind.at] > 0);
    const column = (at) => points.filter((p) => p[at] > 0).map((p) => ({ x: p[0], y: p[at] }));
    const edge = (k) => column(kind.at + k), ofTimes = (at) => (kind === kinds.latency ? column(at) : []);
    const band = { pointRadius: 0, borderWidth: 0, tension: 0, hidden: s.off === true };
    return [
      { ...band, data: edge(1), fill: false },
      { ...band, data: edge(2), fill: "-1", backgroundColor: transparent(colour, 0.22) },
      {
        data: points.map((p) => ({ x: p[0], y: p[kind.at] })), borderColor: colour, borderWidth: look.width,
        borderDash: look.dash, tension: 0, fill: false, hidden: s.off === true,
        pointRadius: look.mark === null ? 0 : points.map((p) => (p[7] > 0 ? 8 : 3.5)),
        pointStyle: look.mark === null ? "circle" : points.map((p) => (p[7] > 0 ? "crossRot" : look.mark)),
        pointBackgroundColor: colour, pointBorderColor: points.map((p) => (p[7] > 0 ? busbar.colour("fail") : colour)),
        pointBorderWidth: points.map((p) => (p[7] > 0 ? 3 : /cross|star/.test(look.mark) ? 1.8 : 1)),
      },
      { ...band, data: ofTimes(13), fill: false },
      { ...band, data: ofTimes(14), fill: "-1", backgroundColor: transparent(colour, 0.1) },
      { ...band, data: ofTimes(12), fill: false, borderColor: colour, borderWidth: 1, borderDash: [1, 4] },
    ];
  });

  const axes = (series, kind, linear, days) => {
    const points = series.flatMap((s) => s.points);
    const x = range(points.filter((p) => p[kind.at] > 0).map((p) => p[0]), 1.25);
    const day = days && new Set(points.map((p) => p[8].slice(0, 10))).size === 1 ? [11, 16] : [0, 10];
    const spread = (p) => (kind === kinds.latency ? p.slice(12, 15) : []);
    const y = range(points.flatMap((p) => [p[kind.at], p[kind.at + 1], p[kind.at + 2], ...spread(p)]), kind === kinds.ratio ? 1.05 : 1.2);
    const style = () => ({
      grid: { color: busbar.colour("grid"), borderColor: busbar.colour("rule"), tickLength: 4 },
    });
    const ticks = () => ({ color: busbar.colour("faint"), font: { size: busbar.fontSize() }, maxRotation: 0, autoSkip: false });
    return {
      x: days ? {
        type: "linear", grace: "3%", ...style(), afterBuildTicks: (axis) => { axis.ticks = dayTicks(series); },
        ticks: { ...ticks(), callback: (v) => dayOf(series, v).slice(...day) },
      } : {
        type: "logarithmic", ...x, ...style(), afterBuildTicks: (axis) => { axis.ticks = sizeTicks(axis.min, axis.max); },
        ticks: { ...ticks(), callback: (v) => busbar.bytes(v).replace("iB", "").replace(" ", "\u2009") },
        title: { display: true, text: "size [bytes]", color: busbar.colour("faint"), font: { size: busbar.fontSize() } },
      },
      y: {
        ...style(), ticks: { ...ticks(), callback: (v) => kind === kinds.latency ? busbar.timeTick(v) : digits(v) },
        ...(linear ? { type: "linear", min: 0, max: undefined } : {
          type: "logarithmic", ...y, afterBuildTicks: (axis) => { axis.ticks = valueTicks(axis.min, axis.max); },
        }),
      },
    };
  };

  const options = (series, kind, linear, days) => ({
    responsive: true, maintainAspectRatio: false, animation: false, events: [], normalized: true, parsing: false,
    devicePixelRatio: busbar.printing ? 3 : Math.max(window.devicePixelRatio || 1, 2),
    plugins: { legend: { display: false }, tooltip: { enabled: false }, decimation: { enabled: false } },
    scales: axes(series, kind, linear && kind === kinds.bandwidth, days),
  });

  const wordsFor = (p, kind) => {
    if (!(p[kind.at] > 0)) return "not measured";
    let text = kind.words(p[kind.at]);
    if (p[kind.at + 1] !== null && p[kind.at + 2] !== null) {
      text += ` [${kind.interval(p[kind.at + 1], p[kind.at + 2])}]`;
    }
    if (kind === kinds.latency && p[12] > 0) text += `, p99 ${busbar.time(p[12])}`;
    if (p[7] > 0) text += `; ${p[7]} WRONG elements`;
    return p[8] ? text + "; " + p[8] : text;
  };

  const setUp = (section, index) => {
    const { series, days } = busbar.data.charts[index], where = (x) => (days ? dayOf(series, x).slice(0, 16) : busbar.bytes(x));
    const legend = section.querySelector(".legend"), readout = section.querySelector(".readout");
    const has = ({ at }) => series.some((s) => s.points.some((p) => p[at] > 0));
    const sides = [...section.querySelectorAll("figure")].filter((f) => has(kinds[f.dataset.kind]) || f.remove()).map((figure) => {
      const kind = kinds[figure.dataset.kind], canvas = figure.querySelector("canvas");
      const chart = new Chart(canvas, {
        type: "line", data: { datasets: datasets(series, kind) }, options: options(series, kind, false, days), plugins: [pointerLine],
      });
      return { figure, kind, canvas, chart, tip: busbar.tip(figure.querySelector(".plot")) };
    });

    const sizes = () => [...new Set(series.filter((s) => !s.off).flatMap((s) => s.points.map((p) => p[0])))]
      .filter((x) => x > 0).sort((a, b) => a - b);
    const rowsAt = (size, kind) => series.map((s, i) => ({ s, i, p: s.points.find((p) => p[0] === size) }))
      .filter(({ s, p }) => p && !s.off && p[kind.at] > 0)
      .map(({ s, i, p }) => ({ swatch: busbar.swatch(busbar.look(s, i)), name: s.label, value: wordsFor(p, kind) }));

    let current = null;
    const hide = () => {
      current = null;
      for (const side of sides) { side.tip.hide(); side.chart.pointerAt = null; side.chart.draw(); }
    };
    const show = (side, size, y, speak) => {
      current = size;
      for (const other of sides) { other.chart.pointerAt = size; other.chart.draw(); if (other !== side) other.tip.hide(); }
      const rows = rowsAt(size, side.kind), x = side.chart.scales.x.getPixelForValue(size);
      side.tip.show(x, y, where(size), rows);
      if (speak) readout.textContent = `${where(size)}, ${side.kind.label}: ${rows.map((r) => `${r.name}: ${r.value}`).join("; ")}`;
    };

    for (const side of sides) {
      side.canvas.addEventListener("mousemove", (event) => {
        const box = side.canvas.getBoundingClientRect(), all = sizes();
        if (all.length === 0) return;
        const at = Math.log(side.chart.scales.x.getValueForPixel(event.clientX - box.left));
        const size = all.reduce((a, b) => (Math.abs(Math.log(b) - at) < Math.abs(Math.log(a) - at) ? b : a));
        show(side, size, event.clientY - box.top, false);
      });
      side.canvas.addEventListener("mouseleave", hide);
      side.canvas.addEventListener("blur", hide);
      side.canvas.addEventListener("keydown", (event) => {
        const all = sizes(), last = all.length - 1;
        if (event.key === "Escape") { hide(); return; }
        const at = all.indexOf(current);
        const next = { ArrowLeft: at <= 0 ? 0 : at - 1, ArrowRight: Math.min(at + 1, last), Home: 0, End: last }[event.key];
        if (next === undefined || last < 0) return;
        event.preventDefault();
        show(side, all[next], 60, true);
      });
    }

    series.forEach((s, i) => {
      const label = busbar.element("label"), box = busbar.element("input", null, { type: "checkbox" });
      box.checked = true;
      box.addEventListener("change", () => {
        s.off = !box.checked;
        label.classList.toggle("off", s.off);
        hide();
        for (const { chart } of sides) {
          for (let k = 0; k < kSets; ++k) chart.setDatasetVisibility(kSets * i + k, !s.off);
          chart.update("none");
        }
      });
      label.append(box, busbar.swatch(busbar.look(s, i)), busbar.element("span", s.label));
      legend.append(label);
    });

    let linear = false;
    const redraw = () => {
      for (const { chart, kind } of sides) {
        chart.data.datasets = datasets(series, kind);
        chart.options = options(series, kind, linear, days);
        chart.update("none");
      }
    };
    const label = busbar.element("label", null, { class: "hint" });
    const box = busbar.element("input", null, { type: "checkbox" });
    box.addEventListener("change", () => { linear = box.checked; hide(); redraw(); });
    label.append(box, busbar.element("b", "linear bandwidth axis"));
    legend.append(label);
    busbar.redraws.push(redraw);
  };

  document.querySelectorAll("section[data-chart]").forEach((s) => setUp(s, Number(s.dataset.chart)));
})();
