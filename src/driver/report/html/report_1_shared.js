// What the pictures share: the data, numbers as people read them, marks, axes, the box next to the pointer. Colors are
// the style sheet's, so that dark and paper need nothing here.
"use strict";
const busbar = { data: JSON.parse(document.getElementById("data").textContent) };

busbar.element = (tag, text, attributes) => {
  const node = document.createElement(tag);
  if (text !== undefined && text !== null) node.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  return node;
};

busbar.svg = (tag, attributes, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

// Line i: colors repeat after 7, marks after 6, dashes change with each round of colors.
busbar.look = (series, i) => series.expected
  ? { colour: "expected", mark: "", dash: ["5 5", "2 4", "10 4"][i % 3] }
  : { colour: "line-" + (i % 7), mark: busbar.marks[i % 6], dash: ["", "7 4", "2 3", "9 3 2 3"][Math.floor(i / 7) % 4] };
busbar.wrong = "m-5-5l10 10m0-10l-10 10";
busbar.marks = ["m0-3.5a3.5 3.5 0 1 0 .01 0z", "m-3-3h6v6h-6z", "m0-4.5l4 7h-8z", "m0-4l4 4-4 4-4-4z", "m-3-3l6 6m0-6l-6 6",
  "m0-4v8m-4-4h8m-7-3l6 6m0-6l-6 6"];

// A piece of the line with its mark, for legend and tooltip.
busbar.swatch = (look) => busbar.svg("svg", { width: 30, height: 14, "aria-hidden": "true", style: `color:var(--${look.colour})` },
  busbar.svg("path", { d: "M0 7h30", class: "stroke", "stroke-dasharray": look.dash }),
  busbar.svg("path", { d: "M15 7" + look.mark, class: "mark" }));

busbar.digits = (value) => {
  const size = Math.abs(value);
  if (size >= 1000 || value === 0) return value.toFixed(0);
  if (size >= 10) return value.toFixed(size >= 100 ? 1 : 2);
  return size >= 0.001 ? String(Number(value.toPrecision(3))) : value.toExponential(1);
};
busbar.bytes = (nbytes) => {
  const unit = Math.min(4, Math.max(0, Math.floor(Math.log2(nbytes) / 10)));
  return Number((nbytes / 1024 ** unit).toPrecision(4)) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
};
const unitOf = (us) => us >= 1e6 ? [1e6, " s"] : us >= 1000 ? [1000, " ms"] : [1, " µs"];
busbar.time = (us) => busbar.digits(us / unitOf(us)[0]) + unitOf(us)[1];
// Without digits that say nothing, for axes.
busbar.timeTick = (us) => Number((us / unitOf(us)[0]).toPrecision(3)) + unitOf(us)[1];

// The empty picture: a grid with the ticks of both axes, [value, words] each. Returns where a value of each axis is, and
// which value is where on x. An axis is from `min` to `max`, `linear` or logarithmic.
busbar.axes = (svg, x, y, title) => {
  const width = Math.max(svg.parentElement.clientWidth, 320), height = 320, [left, right, top, bottom] = [64, width - 12, 8, 278];
  const scale = ({ min, max, linear }, from, to) => {
    const of = linear ? (v) => v : Math.log, step = (to - from) / (of(max) - of(min));
    return Object.assign((v) => from + (of(v) - of(min)) * step,
      { value: (at) => { const v = of(min) + (at - from) / step; return linear ? v : Math.exp(v); } });
  };
  const of = { x: scale(x, left, right), y: scale(y, bottom, top), width, top, bottom };
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const text = (words, at) => busbar.svg("text", at, words);
  svg.replaceChildren(
    ...y.ticks.flatMap(([v, words]) => [busbar.svg("path", { class: "grid", d: `M${left} ${of.y(v)}H${right}` }),
      text(words, { x: left - 6, y: of.y(v) + 4, "text-anchor": "end" })]),
    ...x.ticks.flatMap(([v, words]) => [busbar.svg("path", { class: "grid", d: `M${of.x(v)} ${top}V${bottom}` }),
      text(words, { x: of.x(v), y: bottom + 17, "text-anchor": "middle" })]),
    text(title, { x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }));
  return of;
};

// Reads places of a picture out by mouse and keyboard: `under` is the place at a point of the picture in its own units,
// `step` the next one by a key, null none. `words` of a place: where its box is, its title, and rows of swatch, name and
// value. `mark` shows the place in the picture.
busbar.explore = (picture, readout, { under, step, words, mark }) => {
  const box = busbar.element("div", null, { class: "tip", role: "tooltip" }), figure = picture.parentElement;
  let current = null;
  figure.append(box);
  const go = (place, spoken) => {
    current = place;
    box.hidden = place === null;
    mark(place);
    if (place === null) return;
    const { x, y, title, rows } = words(place), scale = picture.getBoundingClientRect().width / picture.viewBox.baseVal.width;
    const line = ({ swatch, name, value }) => [...(swatch ? [swatch] : []), ...(name ? [busbar.element("span", name + " ")] : []),
      busbar.element("span", value, { class: name ? "value" : "value wide" })];
    const list = busbar.element("div", null, { class: "rows" });
    list.append(...rows.flatMap(line));
    box.replaceChildren(busbar.element("b", title), list);
    // Below the pointer if there is no room next to it: not over what it describes.
    const right = x * scale + 14, left = x * scale - 14 - box.offsetWidth, fits = right + box.offsetWidth <= figure.clientWidth;
    box.style.left = (fits ? right : Math.max(0, left)) + "px";
    box.style.top = (fits || left >= 0 ? Math.max(0, y * scale - box.offsetHeight / 2) : y * scale + 18) + "px";
    if (spoken) readout.textContent = `${title}: ${rows.map((r) => (r.name ? r.name + ": " : "") + r.value).join("; ")}`;
  };
  const hide = () => go(null);
  picture.addEventListener("mousemove", (event) => {
    const at = picture.getBoundingClientRect(), scale = picture.viewBox.baseVal.width / at.width;
    go(under((event.clientX - at.left) * scale, (event.clientY - at.top) * scale));
  });
  for (const leaving of ["mouseleave", "blur"]) picture.addEventListener(leaving, hide);
  picture.addEventListener("keydown", (event) => {
    const next = event.key === "Escape" ? null : step(event.key, current);
    if (next === undefined) return;
    event.preventDefault();
    go(next, true);
  });
  hide();
  return hide;
};
// The keys of a row of places.
busbar.along = (all, key, current) => {
  const at = all.indexOf(current), last = all.length - 1;
  return all[{ ArrowLeft: Math.max(at - 1, 0), ArrowRight: Math.min(at + 1, last), Home: 0, End: last }[key]];
};

for (const [event, open] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(event, () => document.querySelectorAll("details.print").forEach((d) => {
    if (open) d.dataset.was = d.open ? "1" : "";
    d.open = open || d.dataset.was === "1";
  }));
}
document.documentElement.classList.add("script");
