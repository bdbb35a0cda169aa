// Pairs: each square is one, darker the slower.
"use strict";
(() => {
  const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
  const value = Object.fromEntries([...digits].map((c, i) => [c, i]));

  const rgb = (colour) => {
    const n = parseInt(colour.slice(1), 16);
    return [n >> 16, (n >> 8) & 255, n & 255];
  };
  const mix = (a, b, share) => a.map((v, i) => Math.round(v + (b[i] - v) * share));
  // Share of the median to color: good at 1, slow at 0.5, worst at 0, another hue above 1.
  const painter = () => {
    const [good, slow, worst, fast] = ["good", "slow", "worst", "fast"].map((c) => rgb(busbar.colour("heat-" + c)));
    return (share) => {
      if (share >= 1) return mix(good, fast, Math.min((share - 1) * 2, 1));
      return share >= 0.5 ? mix(slow, good, (share - 0.5) * 2) : mix(worst, slow, share * 2);
    };
  };

  const setUp = (section, index) => {
    const map = busbar.data.matrices[index], n = map.names.length;
    const figure = section.querySelector("figure"), canvas = figure.querySelector("canvas");
    const readout = section.querySelector(".readout"), tip = busbar.tip(figure);
    const share = (row, column) => {
      const at = 2 * (row * n + column);
      return (value[map.grid[at]] * 64 + value[map.grid[at + 1]]) / 1000;
    };
    const cell = Math.max(1, Math.min(n <= 12 ? 44 : 30, Math.floor(600 / n)));
    const every = Math.max(1, Math.ceil(13 / cell));
    const shown = (name) => (name.length > 16 ? name.slice(0, 7) + "\u2026" + name.slice(-8) : name);
    const font = "12px system-ui, 'DejaVu Sans', sans-serif";
    let margin = 0, ratio = 1, current = null;

    // All but the pointer's frame: 512 x 512 squares take too long to be drawn again when the pointer moves.
    const picture = document.createElement("canvas");
    const paint = () => {
      ratio = busbar.printing ? 3 : Math.max(window.devicePixelRatio || 1, 1);
      const context = picture.getContext("2d");
      context.font = font;
      margin = 12 + Math.ceil(Math.max(...map.names.map((name) => context.measureText(shown(name)).width)));
      const side = margin + n * cell + 2;
      picture.width = canvas.width = side * ratio;
      picture.height = canvas.height = side * ratio;
      canvas.style.width = side + "px";
      context.scale(ratio, ratio);
      context.font = font;
      context.fillStyle = busbar.colour("paper");
      context.fillRect(0, 0, side, side);
      const colour = painter(), gap = cell >= 6 ? 1 : 0;
      for (let row = 0; row < n; ++row) {
        for (let column = 0; column < n; ++column) {
          const of = share(row, column), x = margin + column * cell, y = margin + row * cell;
          if (of === 0) continue;
          const c = colour(of);
          context.fillStyle = `rgb(${c})`;
          context.fillRect(x, y, cell - gap, cell - gap);
          if (cell < 9 || !(map.threshold > 0) || of >= map.threshold) continue;
          // Not by color alone.
          context.strokeStyle = c[0] + c[1] + c[2] > 380 ? "#000000" : "#ffffff";
          context.lineWidth = 1.5;
          context.beginPath();
          const a = cell * 0.3, b = cell - gap - a;
          context.moveTo(x + a, y + a); context.lineTo(x + b, y + b); context.moveTo(x + b, y + a); context.lineTo(x + a, y + b);
          context.stroke();
        }
      }
      context.strokeStyle = busbar.colour("rule");
      context.strokeRect(margin - 0.5, margin - 0.5, n * cell + 1, n * cell + 1);
      const blamed = new Set(map.blamed);
      for (let i = 0; i < n; ++i) {
        // A name to blame pushes its neighbors' names aside.
        const beside = map.blamed.some((b) => b !== i && Math.abs(b - i) < every);
        if ((i % every !== 0 || beside) && !blamed.has(i)) continue;
        context.fillStyle = busbar.colour(blamed.has(i) ? "fail" : "faint");
        context.font = (blamed.has(i) ? "bold " : "") + font;
        context.textBaseline = "middle";
        context.textAlign = "right";
        context.fillText(shown(map.names[i]), margin - 5, margin + (i + 0.5) * cell);
        context.save();
        context.translate(margin + (i + 0.5) * cell, margin - 5);
        context.rotate(-Math.PI / 2);
        context.textAlign = "left";
        context.fillText(shown(map.names[i]), 0, 0);
        context.restore();
      }
      drawScale(colour);
      draw();
    };

    const draw = () => {
      const context = canvas.getContext("2d");
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.drawImage(picture, 0, 0);
      if (!current) return;
      context.scale(ratio, ratio);
      context.strokeStyle = busbar.colour("focus");
      context.lineWidth = 2;
      context.strokeRect(margin + current[1] * cell - 1, margin + current[0] * cell - 1, cell + 1, cell + 1);
    };

    const drawScale = (colour) => {
      const scale = section.querySelector(".scale canvas"), context = scale.getContext("2d");
      scale.width = 150;
      scale.height = 12;
      for (let x = 0; x < 150; ++x) {
        context.fillStyle = `rgb(${colour(x / 100)})`;
        context.fillRect(x, 0, 1, 12);
      }
    };

    const words = ([row, column]) => {
      const of = share(row, column), pair = `${map.names[row]} ${map.one_way ? "\u2192" : "\u2194"} ${map.names[column]}`;
      if (of === 0) return [pair, row === column ? "itself" : "not measured"];
      const slow = map.threshold > 0 && of < map.threshold ? ", slow" : "";
      return [pair, `${busbar.bandwidth(of * map.median)}, ${of.toFixed(2)} of the median${slow}`];
    };
    const scaled = () => canvas.getBoundingClientRect().width / (margin + n * cell + 2);
    const show = (at, speak) => {
      current = at;
      draw();
      const [pair, text] = words(at), k = scaled();
      tip.show((margin + (at[1] + 1) * cell) * k, (margin + at[0] * cell) * k, pair, [{ value: text }]);
      if (speak) readout.textContent = pair + ": " + text;
    };
    const hide = () => { current = null; tip.hide(); draw(); };

    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect(), k = scaled();
      const column = Math.floor(((event.clientX - box.left) / k - margin) / cell);
      const row = Math.floor(((event.clientY - box.top) / k - margin) / cell);
      if (row < 0 || column < 0 || row >= n || column >= n) hide();
      else if (!current || current[0] !== row || current[1] !== column) show([row, column], false);
    });
    canvas.addEventListener("mouseleave", hide);
    canvas.addEventListener("blur", hide);
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { hide(); return; }
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      const clamp = (v) => Math.max(0, Math.min(n - 1, v));
      show(current ? [clamp(current[0] + step[0]), clamp(current[1] + step[1])] : [0, Math.min(1, n - 1)], true);
    });
    busbar.redraws.push(paint);
    paint();
  };

  document.querySelectorAll("section[data-matrix]").forEach((s) => setUp(s, Number(s.dataset.matrix)));
})();
