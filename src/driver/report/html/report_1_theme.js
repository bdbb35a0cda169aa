// What the parts share: the data, the style's colors, marks, words for numbers.
"use strict";
const busbar = {
  data: JSON.parse(document.getElementById("data").textContent),
  redraws: [],  // called when the colors change
  printing: false,
};

busbar.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// Line i: colors repeat after 7, marks after 6, dashes change with each round of colors.
busbar.marks = ["circle", "rect", "triangle", "rectRot", "crossRot", "star"];
busbar.dashes = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
busbar.look = (series, i) => series.expected
  ? { colour: "expected", mark: null, dash: [[5, 5], [2, 4], [10, 4]][i % 3], width: 1.5 }
  : { colour: "line-" + (i % 7), mark: busbar.marks[i % 6], dash: busbar.dashes[Math.floor(i / 7) % 4], width: 2 };

busbar.element = (tag, text, attributes) => {
  const node = document.createElement(tag);
  if (text !== undefined && text !== null) node.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  return node;
};

// A piece of the line with its mark, for legend and tooltip; its colors follow the style by themselves.
busbar.swatch = (look) => {
  const shapes = {
    circle: "M15 4a3 3 0 1 0 .01 0z", rect: "M12 4h6v6h-6z", triangle: "M15 3l4 7h-8z", rectRot: "M15 3l4 4-4 4-4-4z",
    crossRot: "M12 4l6 6M18 4l-6 6", star: "M15 3v8M11 7h8M12 4l6 6M18 4l-6 6",
  };
  const make = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const svg = make("svg", { width: 30, height: 14, viewBox: "0 0 30 14", "aria-hidden": "true" });
  const stroke = `stroke:var(--${look.colour});stroke-width:2;fill:none`;
  const line = make("path", { d: "M0 7h30", "stroke-dasharray": look.dash.join(" ") || "none" });
  line.style.cssText = stroke;
  svg.append(line);
  if (look.mark) {
    const mark = make("path", { d: shapes[look.mark] });
    mark.style.cssText = stroke + (/cross|star/.test(look.mark) ? "" : `;fill:var(--${look.colour})`);
    svg.append(mark);
  }
  return svg;
};

const digits = (value) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000) return value.toFixed(0);
  if (size >= 100) return value.toFixed(1);
  if (size >= 10) return value.toFixed(2);
  if (size >= 0.001) return String(Number(value.toPrecision(3)));
  return value.toExponential(1);
};
busbar.bytes = (nbytes) => {
  let unit = 0;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  while (nbytes >= 1024 && unit < 4) { nbytes /= 1024; ++unit; }
  return String(Number(nbytes.toPrecision(4))) + " " + units[unit];
};
busbar.bandwidth = (value) => digits(value) + " GB/s";
// Both ends in one unit: "414.9, 446.4", "980 µs, 1.02 ms".
busbar.bandwidths = (low, high) => digits(low) + ", " + digits(high);
busbar.times = (low, high) => {
  const [a, b] = [busbar.time(low), busbar.time(high)];
  return a.split(" ")[1] === b.split(" ")[1] ? a.split(" ")[0] + ", " + b : a + ", " + b;
};
// Without digits that say nothing, for axes.
busbar.timeTick = (us) => {
  const [scale, unit] = us >= 1e6 ? [1e6, "s"] : us >= 1000 ? [1000, "ms"] : [1, "µs"];
  return String(Number((us / scale).toPrecision(3))) + "\u2009" + unit;
};
busbar.time = (us) => us >= 1e6 ? digits(us / 1e6) + " s" : us >= 1000 ? digits(us / 1000) + " ms" : digits(us) + " µs";

// Charts on paper are drawn smaller than on a screen.
busbar.fontSize = () => (busbar.printing ? 16 : 12);

// Everything is drawn again when the style changes: dark, light, paper.
busbar.redraw = () => busbar.redraws.forEach((draw) => draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", busbar.redraw);
addEventListener("beforeprint", () => {
  busbar.printing = true;
  document.documentElement.classList.add("paper");  // a dark screen's style still holds at this moment
  document.querySelectorAll("details.print").forEach((d) => { d.dataset.was = d.open ? "1" : ""; d.open = true; });
  busbar.redraw();
});
addEventListener("afterprint", () => {
  busbar.printing = false;
  document.documentElement.classList.remove("paper");
  document.querySelectorAll("details.print").forEach((d) => { d.open = d.dataset.was === "1"; });
  busbar.redraw();
});

// A box next to the pointer, kept inside its figure.
busbar.tip = (figure) => {
  const box = busbar.element("div", null, { class: "tip", role: "tooltip" });
  box.hidden = true;
  figure.append(box);
  return {
    box,
    hide() { box.hidden = true; },
    show(x, y, title, rows) {
      box.replaceChildren(busbar.element("b", title));
      const list = busbar.element("div", null, { class: "rows" });
      for (const { swatch, name, value } of rows) {
        if (swatch) list.append(swatch);
        if (name) list.append(busbar.element("span", name + " "));
        list.append(busbar.element("span", value, { class: name ? "value" : "value wide" }));
      }
      box.append(list);
      box.hidden = false;
      const right = x + 14, left = x - 14 - box.offsetWidth, fits = right + box.offsetWidth <= figure.clientWidth;
      box.style.left = (fits ? right : Math.max(0, left)) + "px";
      // Below the pointer if there is no room next to it: not over what it describes.
      box.style.top = (fits || left >= 0 ? Math.max(0, y - box.offsetHeight / 2) : y + 18) + "px";
    },
  };
};

document.documentElement.classList.add("script");
