// Every rank's lateness and own time in one cell; another cell by the list.
"use strict";
(() => {
  const setUp = (section) => {
    const skews = busbar.data.skews, canvas = section.querySelector("canvas"), select = section.querySelector("select");
    const readout = section.querySelector(".readout"), plot = section.querySelector(".plot"), tip = busbar.tip(plot);
    skews.forEach((s, i) => select.append(busbar.element("option", s.title, { value: i })));
    let skew = skews[0], current = null;

    // A rank of the data: [rank, index of its host, own time in us, lateness in us or null, share of being last or null].
    const datasets = () => {
      const late = skew.ranks.some((r) => r[3] !== null), few = skew.ranks.length <= 128;
      const own = {
        label: "own time", data: skew.ranks.map((r, i) => ({ x: i, y: r[2] })), type: "line", showLine: false,
        borderColor: busbar.colour("line-0"), backgroundColor: busbar.colour("line-0"), pointRadius: few ? 4 : 1.5, pointStyle: "circle",
      };
      const lateness = {
        label: "late", data: skew.ranks.map((r, i) => ({ x: i, y: r[3] })), type: few ? "bar" : "line", showLine: false, barPercentage: 0.8, maxBarThickness: 36,
        borderColor: busbar.colour("line-1"), backgroundColor: busbar.colour("line-1"), pointRadius: few ? 4 : 1.5, pointStyle: "rect",
      };
      return late ? [own, lateness] : [own];
    };
    const axis = (text, extra) => ({
      type: "linear", grid: { color: busbar.colour("grid"), borderColor: busbar.colour("rule") },
      title: { display: true, text, color: busbar.colour("faint"), font: { size: busbar.fontSize() } }, ...extra,
      ticks: { color: busbar.colour("faint"), font: { size: busbar.fontSize() }, ...(extra.ticks || {}) },
    });
    const options = () => ({
      responsive: true, maintainAspectRatio: false, animation: false, events: [], parsing: false,
      devicePixelRatio: busbar.printing ? 3 : Math.max(window.devicePixelRatio || 1, 2),
      plugins: { legend: { display: false }, tooltip: { enabled: false } },
      scales: {
        x: axis("rank", { min: -0.6, max: skew.ranks.length - 0.4, offset: false, grid: { display: false },
          ticks: { precision: 0, stepSize: Math.max(1, Math.ceil(skew.ranks.length / 16)), callback: (v) => (skew.ranks[v] ? skew.ranks[v][0] : "") },
          afterBuildTicks: (a) => {
            const step = Math.max(1, Math.ceil(skew.ranks.length / 16));
            a.ticks = skew.ranks.map((_, i) => ({ value: i })).filter((t) => t.value % step === 0);
          } }),
        y: axis("time", { beginAtZero: true, ticks: { callback: (v) => busbar.timeTick(v) } }),
      },
    });
    const chart = new Chart(canvas, { type: "bar", data: { datasets: datasets() }, options: options() });
    const redraw = () => {
      chart.data.datasets = datasets();
      chart.options = options();
      chart.update("none");
    };
    const words = (r) => {
      const text = [`own time ${busbar.time(r[2])}`];
      if (r[3] !== null) text.push(`late by ${busbar.time(r[3])}`);
      if (r[4] !== null) text.push(`last in ${Math.round(100 * r[4])} % of the samples`);
      if (r[0] === skew.straggler) text.push("the straggler");
      return [`rank ${r[0]} on ${skew.hosts[r[1]]}`, text];
    };
    const hide = () => { current = null; tip.hide(); };
    const show = (at, y, speak) => {
      current = at;
      const [title, lines] = words(skew.ranks[at]);
      tip.show(chart.scales.x.getPixelForValue(at), y, title, lines.map((value) => ({ value })));
      if (speak) readout.textContent = title + ": " + lines.join(", ");
    };
    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect();
      const at = Math.round(chart.scales.x.getValueForPixel(event.clientX - box.left));
      if (skew.ranks[at]) show(at, event.clientY - box.top, false);
      else hide();
    });
    canvas.addEventListener("mouseleave", hide);
    canvas.addEventListener("blur", hide);
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { hide(); return; }
      const last = skew.ranks.length - 1, at = current === null ? -1 : current;
      const next = { ArrowLeft: Math.max(0, at - 1), ArrowRight: Math.min(at + 1, last), Home: 0, End: last }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      show(next, 60, true);
    });
    select.addEventListener("change", () => { skew = skews[Number(select.value)]; hide(); redraw(); });
    busbar.redraws.push(redraw);
  };
  document.querySelectorAll("section[data-skew]").forEach(setUp);
})();
