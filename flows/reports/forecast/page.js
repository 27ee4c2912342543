"use strict";
// Sliders move the logarithms of the budgets' ratios; errors follow from the fitted polynomial.

const $ = (id) => document.getElementById(id);
const moved = START.groups.map(() => 0);
const figure = (x, places = 3) => x.toLocaleString("en", { maximumSignificantDigits: places, useGrouping: false });
const sum = (values) => values.reduce((all, one) => all + one, 0);
const budgets = (logs) => START.groups.map((group, at) => group.budget * Math.exp(logs[at]));
const held = START.whole[0] - sum(START.groups.map((group) => group.budget));  // of levels without a slider

// The ratios with the sum held: all of them scaled alike
function logarithms() {
  if (!$("hold").checked) return moved;
  const shift = Math.log(sum(budgets(moved)) / sum(START.groups.map((group) => group.budget)));
  return moved.map((own) => own - shift);
}

function errorsAt(logs) {
  const own = logs.filter((_, at) => START.groups[at].predicted);
  const terms = [...own, ...own.map((x) => x * x), ...START.pairs.map(([a, b]) => own[a] * own[b])];
  return START.rows.map((row) => row.start * Math.exp(sum(row.coefficients.map((own, at) => own * terms[at]))));
}

function addRows() {
  START.groups.forEach((group, at) => {
    const row = document.createElement("tr");
    row.innerHTML = `<td></td><td></td><td><input type="range" min="-1.2" max="1.2" step="0.01" value="0"></td><td></td><td></td>`;
    const label = `${group.level}: ${group.kind}`;
    [row.cells[0].textContent, row.cells[1].textContent, row.cells[3].textContent] = [group.level, group.kind, figure(group.before)];
    const slider = row.querySelector("input");
    slider.setAttribute("aria-label", label);
    slider.addEventListener("input", () => { moved[at] = +slider.value; draw(); });
    $("groups").append(row);
  });
  for (const quantity of new Set(START.rows.map((row) => row.quantity))) $("quantity").append(new Option(quantity));
  $("quantity").addEventListener("input", draw);
  $("hold").addEventListener("input", draw);
  $("reset").addEventListener("click", () => {
    moved.fill(0);
    for (const slider of document.querySelectorAll("#groups input")) slider.value = 0;
    draw();
  });
}

function draw() {
  const logs = logarithms(), now = budgets(logs);
  [...$("groups").rows].forEach((row, at) => { row.cells[4].textContent = figure(now[at]); });
  const before = START.rows.map((row) => row.before), after = errorsAt(logs);
  const budget = [START.whole[1], sum(now) + held].map((each) => figure(each, 6));
  const total = budget[0] === budget[1] ? `<b>${budget[1]}</b>` : `<b>${budget[1]}</b> (before: ${budget[0]})`;
  const ratios = after.map((error, at) => error / before[at]), [low, high] = [Math.min(...ratios), Math.max(...ratios)];
  const words = (at) => `${START.rows[at].level}, ${START.rows[at].quantity}`;
  const change = (ratio) => `${ratio < 1 ? "−" : "+"}${figure(100 * Math.abs(ratio - 1), 2)}%`;
  $("answer").innerHTML = high - low < 1e-9 ? `The budget is ${total}: move a slider.`
    : `The budget is ${total}. Errors change from <b>${change(low)}</b> (${words(ratios.indexOf(low))}) to <b>${change(high)}</b> (${words(ratios.indexOf(high))}).`;
  const shown = START.rows.map((row, at) => at).filter((at) => START.rows[at].quantity === $("quantity").value);
  $("errors").replaceChildren(...shown.map((at) => {
    const row = document.createElement("tr");
    for (const text of [START.rows[at].level, figure(before[at]), figure(after[at]), change(ratios[at])]) row.insertCell().textContent = text;
    return row;
  }));
  drawDots(shown.map((at) => [START.rows[at].level, before[at], after[at]]));
}

function drawDots(rows) {
  const svg = $("dots"), left = 190, right = 600, step = Math.min(44, 360 / rows.length);
  const values = rows.flatMap(([, a, b]) => [a, b]).map(Math.log10);
  const [low, high] = [Math.min(...values) - 0.05, Math.max(...values) + 0.05];
  const x = (error) => left + ((Math.log10(error) - low) / (high - low)) * (right - left);
  const add = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    svg.append(made);
  };
  svg.replaceChildren();
  const bottom = step * rows.length + 8;
  for (let power = Math.floor(low); power <= high; power++)
    for (const digit of [1, 2, 5]) {
      const tick = digit * 10 ** power;
      if (Math.log10(tick) < low || Math.log10(tick) > high) continue;
      add("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 4, y2: bottom });
      add("text", { x: x(tick), y: bottom + 16, "text-anchor": "middle" }, figure(tick));
    }
  rows.forEach(([level, before, after], at) => {
    const y = step * (at + 0.5) + 4;
    add("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, level);
    add("line", { class: "move", x1: x(before), x2: x(after), y1: y, y2: y });
    add("circle", { class: "before", cx: x(before), cy: y, r: 5 });
    add("circle", { class: "after", cx: x(after), cy: y, r: 5 });
  });
  add("text", { x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, "mean absolute error (logarithmic)");
  svg.setAttribute("viewBox", `0 0 620 ${bottom + 44}`);
}

addRows();
draw();
