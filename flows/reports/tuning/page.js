"use strict";
// The page: the sliders change `state`, from which the table and the charts are drawn.

const $ = (id) => document.getElementById(id);
const state = structuredClone(START);
const whole = (x) => (x === null ? "never" : x === 0 ? "any" : x.toLocaleString("en-US"));
const figure = (x, places = 4) => x.toLocaleString("en", { maximumSignificantDigits: places, useGrouping: false });
const upTo3 = (x) => (Math.ceil(x * 1000 - 1e-6) / 1000).toFixed(3); // a guarantee is rounded up
const rightOf100 = (figure) => {
  const bound = 100 * detection(state.definition, figure);
  return bound > 99.9 ? "over 99.9" : (Math.ceil(10 * bound - 1e-6) / 10).toFixed(1);
};
const unit = () => (state.definition === "zcdp" ? "rho" : "epsilon");
const budgetOf = (level) => level.budgets[state.definition];
const plan = () => ({ ...state, levels: undefined });
const answersFor = (level) => levelAnswers(plan(), { budget: budgetOf(level), stability: level.stability });

const TABLES = Object.keys(state.cells);
const BY_AGE = TABLES.slice(1);
const MARGINS = ["total_only", "step_1", "count", ...BY_AGE.map((name) => `total_at_${name}`)];
const SIZES = ["total_only", ...TABLES];

function addRows() {
  for (const level of state.levels) {
    const row = document.createElement("tr");
    row.dataset.level = level.slug;
    row.innerHTML = `<td></td><td><input type="checkbox" aria-label="on"></td>
      <td><input type="range" min="-4" max="2" step="0.01" aria-label="budget, logarithm">
      <input type="number" min="0" step="any" aria-label="budget"></td><td data-out="stability"></td>`
      + MARGINS.map((name) => `<td data-out="${name}"></td>`).join("")
      + SIZES.map((name) => `<td data-out="size-${name}"></td>`).join("")
      + `<td data-out="threshold"></td><td data-out="with"></td><td data-out="without"></td><td data-out="right"></td>`;
    row.cells[0].textContent = level.name;
    const [on, slider, number] = row.querySelectorAll("input");
    on.addEventListener("input", () => change(() => { level.on = on.checked; }));
    slider.addEventListener("input", () => change(() => setBudget(level, +(10 ** slider.value).toPrecision(4))));
    number.addEventListener("input", () => {
      const valid = number.value > 0;
      number.classList.toggle("wrong", !valid);
      if (valid) change(() => setBudget(level, +number.value), number);
    });
    $("levels").append(row);
    for (const id of ["shown", "asked-level"]) $(id).append(new Option(level.name, level.slug));
  }
}

function setBudget(level, budget) { level.budgets[state.definition] = budget; }
function total() { return state.levels.reduce((sum, level) => sum + (level.on ? budgetOf(level) : 0), 0); }
function setTotal(wanted) {
  const factor = wanted / total();
  for (const level of state.levels) if (level.on) setBudget(level, +(budgetOf(level) * factor).toPrecision(6));
}

function change(what, typedIn) {
  what();
  draw(typedIn);
}

// Calls `set` with a typed number that is strictly between the bounds
function typed(input, low, high, set) {
  input.addEventListener("input", () => {
    const valid = +input.value > low && +input.value < high;
    input.classList.toggle("wrong", !valid);
    if (valid) change(() => set(+input.value), input);
  });
}

function listen() {
  const slide = (id, set) => $(id).addEventListener("input", () => change(() => set(+$(id).value)));
  slide("race-codes", (x) => {
    state.raceCodes = x;
    for (const level of state.levels) level.stability = null; // from now on by the multiplicity
  });
  slide("gamma", (x) => { state.gamma = x; });
  slide("total", (x) => setTotal(10 ** x));
  slide("chance", (x) => { state.chance = +(1 - 10 ** -x).toPrecision(Math.ceil(x) + 3); });
  typed($("target"), 0, Infinity, (x) => { state.target = x; });
  typed($("delta"), 0, 1, (x) => { state.delta = x; });
  $("definition").addEventListener("input", () => change(() => { state.definition = $("definition").value; }));
  $("relative").addEventListener("input", () => change(() => {
    state.relative = $("relative").value === "yes";
    state.target = state.relative ? 0.1 : 10;
  }));
  for (const id of ["asked", "asked-level", "within", "within-kind", "size"]) $(id).addEventListener("input", answer);
  $("take").addEventListener("click", () => change(() => {
    const [level, budget] = answer();
    level.on = true;  // as in the spend next to the answer
    setBudget(level, budget);
  }));
  for (const id of ["shown", "fractions"]) $(id).addEventListener("input", () => draw());
}

function answer() {
  const level = state.levels.find((one) => one.slug === $("asked-level").value), within = +$("within").value;
  const shared = $("within-kind").value === "share", size = Math.floor(+$("size").value);
  const wanted = Math.floor(shared ? (within * size) / 100 + 1e-9 : within);
  $("size").hidden = !shared;
  $("take").disabled = !(wanted >= 1 && wanted <= 1e6);
  if ($("take").disabled) { $("answer").textContent = "choose a margin of 1 to 1,000,000 counts"; return null; }
  const stability = answersFor(level).stability, asked = +$("asked").value;
  const ofGroup = shared && asked === 1 && level.thresholds !== null, own = { stability, thresholds: level.thresholds };
  const [budget, cells] = ofGroup ? leastOfGroup(plan(), own, size, wanted) : [leastBudget(plan(), stability, asked, wanted), asked];
  const others = state.levels.filter((other) => other.on && other !== level).map(budgetOf);
  const spent = loss(plan(), [...others, budget]);
  const { threshold } = levelAnswers(plan(), { budget, stability });
  const cellsNow = ofGroup ? likelyCells(plan(), { ...own, budget: budgetOf(level) }, size) : asked;
  const now = marginOfError(law(state.definition, budgetOf(level) * (1 - state.gamma), stability), cellsNow);
  const has = !level.on ? "is not measured now" : `has ${now.toLocaleString("en-US")} now, which ${now <= wanted ? "meets" : "does not meet"} it`;
  const name = TABLES.find((each) => state.cells[each] === cells);
  const finest = BY_AGE[BY_AGE.length - 1], unknown = shared && asked === 1 && level.thresholds === null;
  const withAges = () => `${unit()} ${leastBudget(plan(), stability, state.cells[finest], wanted)} for one with ${state.ages[finest]}`;
  $("answer").textContent = `${unit()} ${budget} for a margin of ${wanted.toLocaleString("en-US")}`
    + (unknown ? ` of a group without a table by age, ${withAges()}` : "") + `; the level ${has}. `
    + (ofGroup ? `With it a group of ${size.toLocaleString("en-US")} most likely gets ${cells === 1 ? "a total alone" : `a table of ${state.ages[name]}`}. ` : "")
    + `With this level alone changed the release spends ${unit()} ${figure(spent.budget, 7)}, epsilon ${upTo3(spent.epsilon)}`
    + (level.suppressible ? `, and totals up to ${threshold.toLocaleString("en-US")} are suppressed` : "");
  return [level, budget];
}

function draw(typedIn) {
  const show = (input, value) => { if (input !== typedIn) input.value = value; };
  show($("definition"), state.definition);
  show($("race-codes"), state.raceCodes);
  show($("gamma"), state.gamma);
  show($("total"), Math.log10(total() || 1e-3));
  show($("chance"), -Math.log10(1 - state.chance));
  show($("target"), state.target);
  show($("relative"), state.relative ? "yes" : "no");
  show($("delta"), state.delta);
  $("race-codes-out").textContent = `${state.raceCodes} codes`;
  $("gamma-out").textContent = figure(state.gamma);
  $("chance-out").textContent = state.chance;
  $("total-out").textContent = figure(total());
  for (const place of document.querySelectorAll(".unit")) place.textContent = unit();
  for (const place of document.querySelectorAll(".spent-unit"))
    place.textContent = state.definition === "zcdp" ? "epsilon at delta" : "epsilon";
  for (const place of document.querySelectorAll(".zcdp")) place.hidden = state.definition !== "zcdp";
  const on = state.levels.filter((level) => level.on).map(budgetOf);
  for (const relation of document.querySelectorAll("[data-relation]")) {
    const spent = loss(plan(), on.map((budget) => relation.dataset.times * budget));
    const [amount, epsilon, right] = relation.querySelectorAll("b");
    amount.textContent = figure(spent.budget, 7);
    epsilon.textContent = upTo3(spent.epsilon);
    right.textContent = rightOf100(spent.budget);
  }
  const found = new Map(state.levels.map((level) => [level, answersFor(level)]));
  for (const level of state.levels) drawRow(level, found.get(level), show);
  drawCharts(found);
  answer();
}

function drawRow(level, found, show) {
  const row = document.querySelector(`tr[data-level="${level.slug}"]`);
  const [on, slider, number] = row.querySelectorAll("input");
  row.classList.toggle("off", !level.on);
  on.checked = level.on;
  show(slider, Math.log10(budgetOf(level)));
  show(number, budgetOf(level));
  const out = (name, text) => { row.querySelector(`[data-out="${name}"]`).textContent = text; };
  out("stability", found.stability);
  for (const name of MARGINS) out(name, whole(found.margins[name]).replace("any", "0"));
  for (const name of SIZES) out(`size-${name}`, whole(found.sizes[name]));
  out("threshold", level.suppressible ? found.threshold.toLocaleString("en-US") : "–");
  const others = state.levels.filter((other) => other.on && other !== level).map(budgetOf);
  out("with", upTo3(loss(plan(), [...others, budgetOf(level)]).epsilon));
  out("without", upTo3(loss(plan(), others).epsilon));
  out("right", rightOf100(2 * budgetOf(level)));
}

function drawCharts(found) {
  const level = state.levels.find((one) => one.slug === $("shown").value);
  const { noise, threshold, stability } = found.get(level);
  drawSuppression(noise, threshold);
  drawCurve(level, stability);
  drawSizes(found);
}

// True sizes from 0 to 2.5 T, at most 250 of them
function drawSuppression(noise, threshold) {
  const most = Math.max(4, Math.ceil(2.5 * threshold)), step = Math.ceil(most / 250);
  const sizes = Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
  const part = $("fractions").checked && threshold > 0 ? threshold : 1;
  const [persons, counts] = part === 1 ? ["persons", "counts"] : ["fraction of T", "fraction of T"];
  const x = { label: `true size n of the group (${persons})`, low: 0, high: most / part };
  const marks = [{ x: threshold / part, label: `T = ${threshold}` }];
  const over = (f) => sizes.map((n) => [n / part, f(n)]);
  lines($("chart-suppression"), x, { label: "probability of suppression", low: 0, high: 1 }, [
    { name: "P(n + X ≤ T), exact", colour: "a", points: over((n) => suppressionProbability(noise, threshold, n)) },
  ], marks);
  const exact = over((n) => publishedBias(noise, threshold, n) / part);
  const series = [{ name: "E[X | n + X > T], exact", colour: "a", points: exact }];
  lines($("chart-bias"), x, { label: `bias (${counts})`, low: 0, high: 1.05 * exact[0][1] }, series, marks);
}

function drawCurve(level, stability) {
  const from = state.definition === "zcdp" ? -3 : -2; // four decades of rho, or of epsilon
  const [low, most] = [10 ** from, 10 ** (from + 4)];
  const budgets = Array.from({ length: 41 }, (_, i) => 10 ** (from + i / 10));
  const at = (budget, share, cells) => marginOfError(law(state.definition, budget * share, stability), cells);
  const step2 = 1 - state.gamma;
  const series = [
    ["TotalOnly", "e", "2 3", 1, 1], ["count", "a", "none", step2, 1],
    ...BY_AGE.map((name, i) => [`sum, ${state.ages[name]}`, "bcd"[i], ["6 3", "8 3 2 3", "none"][i], step2, state.cells[name]]),
  ].map(([name, colour, dash, share, cells]) => (
    { name, colour, dash, points: budgets.map((budget) => [budget, at(budget, share, cells)]).filter(([, margin]) => margin > 0) }));
  const x = { label: `budget of the level (${unit()}), stability ${stability}`, low, high: most, log: true };
  const high = Math.max(2, ...series.flatMap((one) => one.points.map(([, margin]) => margin)));
  const y = { label: "margin of error at 95% (counts)", low: 0.8, high, log: true };
  const here = budgetOf(level);
  const marks = here >= low && here <= most ? [{ x: here, label: level.name }] : [];
  lines($("chart-curve"), x, y, series, marks);
}

function drawSizes(found) {
  const levels = state.levels.filter((level) => level.on);
  const values = (name) => levels.map((level) => found.get(level).sizes[name] || null);
  const series = TABLES.map((name, i) => (
    { name: state.ages[name], colour: "abcd"[i], shape: ["circle", "square", "diamond", "triangle"][i], values: values(name) }));
  const all = series.flatMap((one) => one.values).filter((value) => value !== null);
  const low = all.length ? 10 ** Math.floor(Math.log10(Math.min(...all))) : 1;
  const high = all.length ? 10 ** Math.ceil(Math.log10(Math.max(...all) + 1)) : 10;
  const label = state.relative ? `population of the group (persons), for a margin of ${figure(state.target)} of the count`
    : "a target in counts is met at any size or never: see the table";
  rows($("chart-sizes"), { label, low, high, log: true }, levels.map((level) => level.name), series);
}

addRows();
$("shown").value = $("asked-level").value = (state.levels.find((level) => level.suppressible) ?? state.levels[0]).slug;
listen();
draw();
