"use strict";
// Charts as SVG in the page's own colours: axes with names and units, and a legend.

const BOX = { left: 62, wide: 132, right: 24, top: 34, bottom: 44, width: 560, height: 330 };

function element(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const short = (x) => (x === 0 ? "0" : x >= 1e6 ? `${+(x / 1e6).toPrecision(3)}M` : x >= 1e4 ? `${+(x / 1e3).toPrecision(3)}k`
  : x >= 0.001 ? String(+x.toPrecision(3)) : x.toExponential(0));

// An axis: {label, low, high, log}; `at` places a value on `length` pixels
function scale(axis, length) {
  const f = axis.log ? Math.log10 : (x) => x;
  const at = (x) => ((f(x) - f(axis.low)) / (f(axis.high) - f(axis.low))) * length;
  return { at, ticks: axis.log ? decades(axis.low, axis.high) : steps(axis.low, axis.high) };
}
function steps(low, high) {
  const raw = (high - low) / 5, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((digit) => digit * power >= 0.8 * raw);
  const ticks = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step / 1e6; x += step) ticks.push(+x.toPrecision(12));
  return ticks;
}
function decades(low, high) {
  const ticks = [], from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
  const digits = to - from > 4 ? [1] : to - from > 2 ? [1, 3] : [1, 2, 5];
  for (let power = from; power <= to; power++)
    for (const digit of digits) {
      const x = digit * 10 ** power;
      if (x >= low * 0.999 && x <= high * 1.001) ticks.push(x);
    }
  return ticks;
}

// Draws axes into an emptied svg; returns functions that place x and y in pixels
function frame(svg, x, y) {
  svg.replaceChildren();
  svg.setAttribute("aria-label", `${y.label} over ${x.label}`);
  const left = y.names ? BOX.wide : BOX.left;
  const width = BOX.width - left - BOX.right, height = BOX.height - BOX.top - BOX.bottom;
  const bottom = BOX.top + height;
  const across = scale(x, width), up = y.names ? null : scale(y, height);
  const px = (value) => left + across.at(value);
  const py = y.names ? (row) => BOX.top + ((row + 0.5) * height) / y.names.length : (value) => bottom - up.at(value);
  for (const tick of across.ticks) {
    svg.append(element("line", { class: "grid", x1: px(tick), x2: px(tick), y1: BOX.top, y2: bottom }));
    svg.append(element("text", { x: px(tick), y: bottom + 16, "text-anchor": "middle" }, short(tick)));
  }
  (y.names ?? up.ticks).forEach((tick, row) => {
    const at = py(y.names ? row : tick);
    svg.append(element("line", { class: "grid", x1: left, x2: left + width, y1: at, y2: at }));
    svg.append(element("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, y.names ? tick : short(tick)));
  });
  svg.append(element("path", { class: "axis", fill: "none", d: `M${left} ${BOX.top}V${bottom}H${left + width}` }));
  svg.append(element("text", { x: left + width / 2, y: BOX.height - 8, "text-anchor": "middle" }, x.label));
  if (!y.names)
    svg.append(element("text", {
      "text-anchor": "middle", transform: `translate(14 ${BOX.top + height / 2}) rotate(-90)` }, y.label));
  return { px, py, bottom };
}

const SHAPES = {
  circle: (x, y) => `M${x - 4.5} ${y}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0`,
  square: (x, y) => `M${x - 4} ${y - 4}h8v8h-8z`,
  diamond: (x, y) => `M${x} ${y - 5.5}l5.5 5.5l-5.5 5.5l-5.5 -5.5z`,
  triangle: (x, y) => `M${x} ${y - 5}l5 9h-10z`,
  bar: (x, y) => `M${x - 1.5} ${y - 6}h3v12h-3z`,
};

function legend(svg, series) {
  let x = 12;
  for (const one of series) {
    const sample = { stroke: `var(--${one.colour})`, "stroke-width": 2, "stroke-dasharray": one.dash ?? "none" };
    if (one.shape) svg.append(element("path", { d: SHAPES[one.shape](x + 8, 16), fill: `var(--${one.colour})` }));
    else svg.append(element("line", { x1: x, x2: x + 18, y1: 16, y2: 16, ...sample }));
    svg.append(element("text", { x: x + 22, y: 20 }, one.name));
    x += 32 + one.name.length * 6;
  }
}

// Lines {name, colour, dash, points} and vertical marks {x, label}
function lines(svg, x, y, series, marks = []) {
  const { px, py, bottom } = frame(svg, x, y);
  for (const mark of marks) {
    svg.append(element("line", { class: "mark", x1: px(mark.x), x2: px(mark.x), y1: BOX.top, y2: bottom }));
    const right = px(mark.x) > BOX.width / 2;
    svg.append(element("text", {
      x: px(mark.x) + (right ? -4 : 4), y: BOX.top + 12, "text-anchor": right ? "end" : "start" }, mark.label));
  }
  for (const one of series) {
    const d = one.points.map(([a, b], i) => `${i ? "L" : "M"}${px(a).toFixed(1)} ${py(b).toFixed(1)}`).join("");
    svg.append(element("path", { class: "line", d, stroke: `var(--${one.colour})`, "stroke-dasharray": one.dash ?? "none" }));
  }
  legend(svg, series);
  return { px, py };
}

// Points {name, colour, shape, values} over the rows of a list of names; null for a missing point
function rows(svg, x, names, series) {
  const { px, py } = frame(svg, x, { names, label: "level" });
  for (const one of series)
    one.values.forEach((value, row) => {
      if (value === null) return;
      const dot = element("path", { d: SHAPES[one.shape](px(value), py(row)), fill: `var(--${one.colour})` });
      dot.append(element("title", {}, `${names[row]}, ${one.name}: ${value.toLocaleString("en-US")}`));
      svg.append(dot);
    });
  legend(svg, series);
}
