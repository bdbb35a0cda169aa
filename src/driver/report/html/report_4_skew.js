// Every rank's lateness and own time in one cell; another cell by the list.
"use strict";
document.querySelectorAll("section[data-skew]").forEach((section) => {
  const skews = busbar.data.skews, svg = section.querySelector("svg"), select = section.querySelector("select");
  skews.forEach((s, i) => select.append(busbar.element("option", s.title, { value: i })));
  // A rank of the data: [rank, index of its host, own time in us, lateness in us or null, share of being last or null].
  let skew, of, places, pointer;
  const draw = () => {
    skew = skews[Number(select.value)];
    const ranks = skew.ranks, max = 1.05 * Math.max(1e-3, ...ranks.map((r) => Math.max(r[2], r[3] ?? 0)));
    places = ranks.map((_, i) => i);
    const every = Math.max(1, Math.ceil(ranks.length / 16)), fourth = Number((max / 4).toPrecision(1));
    of = busbar.axes(svg, { min: -0.6, max: ranks.length - 0.4, linear: true,
      ticks: places.filter((i) => i % every === 0).map((i) => [i, ranks[i][0]]) },
    { min: 0, max, linear: true, ticks: [0, 1, 2, 3, 4].map((k) => k * fourth).filter((v) => v <= max).map((v) => [v, busbar.timeTick(v)]) },
    "rank");
    const wide = Math.max(1, Math.min(36, 0.8 * (of.x(1) - of.x(0)))), mark = ranks.length > 128 ? "h1v1h-1z" : busbar.marks[0];
    const bar = (r, i) => r[3] === null ? "" : `M${of.x(i) - wide / 2} ${of.y(0)}V${of.y(Math.max(0, r[3]))}h${wide}V${of.y(0)}z`;
    pointer = busbar.svg("path", { class: "pointer" });
    svg.append(pointer,
      busbar.svg("g", { style: "color:var(--line-1)" }, busbar.svg("path", { class: "mark", d: ranks.map(bar).join("") })),
      busbar.svg("g", { style: "color:var(--line-0)" },
        busbar.svg("path", { class: "mark", d: ranks.map((r, i) => `M${of.x(i)} ${of.y(r[2])}${mark}`).join("") })));
  };
  const rows = (r) => [`own time ${busbar.time(r[2])}`, r[3] === null ? "" : `late by ${busbar.time(r[3])}`,
    r[4] === null ? "" : `last in ${Math.round(100 * r[4])} % of the samples`, r[0] === skew.straggler ? "the straggler" : ""];
  draw();
  const hide = busbar.explore(svg, section.querySelector(".readout"), {
    under: (x) => places[Math.round(of.x.value(x))] ?? null,
    step: (key, current) => busbar.along(places, key, current),
    mark: (place) => pointer.setAttribute("d", place === null ? "" : `M${of.x(place)} ${of.top}V${of.bottom}`),
    words: (place) => ({ x: of.x(place), y: 60, rows: rows(skew.ranks[place]).filter((text) => text).map((value) => ({ value })),
      title: `rank ${skew.ranks[place][0]} on ${skew.hosts[skew.ranks[place][1]]}` }),
  });
  select.addEventListener("change", () => { hide(); draw(); });
});
