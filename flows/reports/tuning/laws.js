"use strict";
// The noise laws of SafeTab-P in floating point, as in privacy/noise/laws.py, margins.py, privacy/analyses/ and
// privacy/accounting/conversions.py. tests/flows/test_tune_page.py compares the two.
//
// A law has tail(k) = P(X > k) for k >= 0, which is negligible from `last` on; its variance; characteristic(t), the mean
// of cos(2 pi t X); and meanBeyond(k) = E[X | X > k].

const ALPHA = 0.05;
const NEGLIGIBLE = 1e-25;

function gaussian(sigmaSquared) {
  const weight = (k) => Math.exp((-k * k) / (2 * sigmaSquared));
  const last = Math.ceil(Math.sqrt(-2 * sigmaSquared * Math.log(NEGLIGIBLE))) + 1;
  const tails = new Float64Array(last + 1);
  for (let k = last; k > 0; k--) tails[k - 1] = tails[k] + weight(k);
  const theta = 1 + 2 * tails[0];
  let second = 0;
  for (let k = last; k > 0; k--) second += 2 * k * k * weight(k);
  for (let k = 0; k <= last; k++) tails[k] /= theta;
  // E cos(2 pi t X): by Poisson summation where few terms suffice, else directly
  const dual = (t) => {
    let sum = 0;
    for (let n = -3; n <= 3; n++) sum += Math.exp(-2 * Math.PI ** 2 * sigmaSquared * (t + n) ** 2);
    return sum;
  };
  const own = (t) => {
    let sum = 1;
    for (let k = last; k > 0; k--) sum += 2 * weight(k) * Math.cos(2 * Math.PI * k * t);
    return sum / theta;
  };
  return {
    sigma: Math.sqrt(sigmaSquared),
    variance: second / theta,
    last,
    tail: (k) => tails[k] ?? 0,
    characteristic: sigmaSquared > 0.5 ? (t) => dual(t) / dual(0) : own,
    meanBeyond(k) {
      let mass = 0, moment = 0;
      for (let j = Math.floor(9 * Math.sqrt(sigmaSquared)) + 1; j >= 0; j--) {
        const w = Math.exp((-j * (j + 2 * (k + 1))) / (2 * sigmaSquared));
        mass += w;
        moment += j * w;
      }
      return k + 1 + moment / mass;
    },
  };
}

function geometric(scale) {
  const x = Math.exp(-1 / scale);
  const gap = Math.expm1(-1 / scale) ** 2;
  return {
    variance: 1 / (2 * Math.sinh(1 / (2 * scale)) ** 2),
    last: Math.ceil(-scale * Math.log(NEGLIGIBLE)) + 1,
    tail: (k) => Math.exp(-(k + 1) / scale) / (1 + x),
    characteristic: (t) => gap / (gap + 4 * x * Math.sin(Math.PI * t) ** 2),
    meanBeyond: (k) => k + 1 + 1 / Math.expm1(1 / scale),
  };
}

function law(definition, budget, stability) {
  return definition === "zcdp" ? gaussian(stability / (2 * budget)) : geometric(stability / budget);
}

// P(X <= k) and P(X > k), each without cancellation
function cdf(noise, k) { return k >= 0 ? 1 - beyond(noise, k) : beyond(noise, -k - 1); }
function beyond(noise, k) { return k >= 0 ? noise.tail(k) : 1 - beyond(noise, -k - 1); }

// The smallest k >= 0 with P(X > k) <= chance
function quantileBeyond(noise, chance) {
  let low = -1, high = noise.last;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (noise.tail(middle) <= chance) high = middle; else low = middle;
  }
  return high;
}

// The margin of a sum of cells: by Fourier inversion, as privacy/noise/margins.py does with balls
function marginOfError(noise, cells = 1) {
  if (cells === 1) return quantileBeyond(noise, ALPHA / 2);
  const reach = Math.ceil(12 * Math.sqrt(cells * noise.variance)) + 10;
  const period = 2 * reach + 1;
  const weights = [];
  for (let j = 1; j <= reach; j++) {
    const power = noise.characteristic(j / period) ** cells;
    if (power < 1e-18) break;
    weights.push((2 * power) / (period * Math.sin((Math.PI * j) / period)));
  }
  const within = (m) => weights.reduce(
    (sum, weight, i) => sum + weight * Math.sin((Math.PI * (((2 * m + 1) * (i + 1)) % (2 * period))) / period),
    (2 * m + 1) / period);
  let low = -1, high = reach;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (within(middle) >= 1 - ALPHA) high = middle; else low = middle;
  }
  return high;
}

const suppressionThreshold = (noise, chance) => quantileBeyond(noise, 1 - chance);
const suppressionProbability = (noise, threshold, size) => cdf(noise, threshold - size);

function publishedBias(noise, threshold, size) {
  const over = threshold - size, from = Math.max(over, -over - 1);
  const mean = noise.meanBeyond(from);
  return over >= 0 ? mean : (mean * beyond(noise, from)) / beyond(noise, over);
}

// How often, of 1, an attacker who knows all else is right at most, with 5 false alarms in 100: privacy/accounting/attacker.py
const FALSE_ALARMS = 0.05;
const ORDERS = Array.from({ length: 400 }, (_, i) => 1 + 10 ** (-3 + (6 * i) / 399));
function detection(definition, figure) {
  if (definition === "puredp")
    return Math.min(Math.exp(Math.min(figure, 700)) * FALSE_ALARMS, 1 - Math.exp(-figure) * (1 - FALSE_ALARMS));
  if (figure === 0) return FALSE_ALARMS;
  const logAdd = (a, b) => Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b)));
  const apart = (order, p, q) => logAdd(order * Math.log(p) + (1 - order) * Math.log(q),
    order * Math.log1p(-p) + (1 - order) * Math.log1p(-q)) / (order - 1);
  const possible = (right) => ORDERS.every((order) =>
    Math.max(apart(order, right, FALSE_ALARMS), apart(order, FALSE_ALARMS, right)) <= order * figure);
  let low = FALSE_ALARMS, high = 1;
  while (high - low > 1e-9) {
    const middle = (low + high) / 2;
    [low, high] = possible(middle) ? [middle, high] : [low, middle];
  }
  return high;
}

const stabilityOf = (raceCodes) => Math.max(2, raceCodes) + 1;

// The epsilon of rho-zCDP at delta, by the optimal conversion
function epsilonOf(rho, delta) {
  if (rho === 0) return 0;
  let low = 2 ** -500, high = 2 ** 500;
  while (high / low > 1 + 2 ** -50) {
    const x = Math.sqrt(low) * Math.sqrt(high);
    if (rho * x * x + Math.log1p(x) + Math.log(delta) > 0) high = x; else low = x;
  }
  const alpha = 1 + low;
  return Math.max(0, alpha * rho + Math.log1p(-1 / alpha) - (Math.log(alpha) + Math.log(delta)) / low);
}

// All answers for one level. plan.relative: whether the target is a share of the count; plan.cells: of each table
function levelAnswers(plan, level) {
  const stability = level.stability ?? stabilityOf(plan.raceCodes);
  const of = (share) => law(plan.definition, level.budget * share, stability);
  const alone = of(1), first = of(plan.gamma), noise = of(1 - plan.gamma);
  const margins = { total_only: marginOfError(alone), step_1: marginOfError(first), count: marginOfError(noise) };
  const tables = Object.entries(plan.cells);
  for (const [name, cells] of tables.slice(1)) margins[`total_at_${name}`] = marginOfError(noise, cells);
  const size = plan.relative
    ? (margin, cells) => Math.ceil((cells * margin) / plan.target - 1e-9)
    : (margin) => (margin <= plan.target ? 0 : null);
  const sizes = Object.fromEntries(tables.map(([name, cells]) => [name, size(margins.count, cells)]));
  sizes.total_only = size(margins.total_only, 1);
  return { stability, noise, margins, sizes, threshold: suppressionThreshold(noise, plan.chance) };
}

// The chance of each table for a group of a size: whether its noisy total of step 1 reaches each threshold; null: never
function tableChances(noise, size, thresholds) {
  const reached = thresholds.map((threshold) => (threshold === null ? 0 : beyond(noise, threshold - size - 1)));
  const less = [...reached, 0];
  return [1, ...reached].map((more, i) => more - less[i]);
}

// The cells of the table that a group of a size most likely gets with a budget: a total is their sum
function likelyCells(plan, level, size) {
  const chances = tableChances(law(plan.definition, level.budget * plan.gamma, level.stability), size, level.thresholds);
  return Object.values(plan.cells)[chances.indexOf(Math.max(...chances))];
}

// The least budget of a level, to six digits, with which a sum of cells has a margin of at most `wanted` counts
function leastBudget(plan, stability, cells, wanted) {
  const share = 1 - plan.gamma, sigma = (wanted + 0.5) / 1.96;
  const guess = plan.definition === "zcdp" ? (stability * cells) / (2 * sigma ** 2) : (stability * Math.sqrt(2 * cells)) / sigma;
  const meets = (budget) => marginOfError(law(plan.definition, budget * share, stability), cells) <= wanted;
  let [low, high] = [guess / share / 4, (4 * guess) / share];
  while (meets(low)) [low, high] = [low / 4, low];
  while (!meets(high)) [low, high] = [high, high * 4];
  while (high / low > 1 + 1e-12) {
    const middle = Math.sqrt(low * high);
    [low, high] = meets(middle) ? [low, middle] : [middle, high];
  }
  const unit = 10 ** (Math.floor(Math.log10(high)) - 5);
  return +(Math.ceil(high / unit - 1e-6) * unit).toPrecision(6);
}

// That budget and the cells, for the total of a group of a size: of the table that the group then most likely gets
function leastOfGroup(plan, level, size, wanted) {
  for (let cells = 1; ;) {
    const budget = leastBudget(plan, level.stability, cells, wanted);
    const likely = likelyCells(plan, { ...level, budget }, size);
    if (likely <= cells) return [budget, likely];
    cells = likely;
  }
}

function loss(plan, budgets) {
  const spent = budgets.reduce((sum, budget) => sum + budget, 0);
  return { budget: spent, epsilon: plan.definition === "zcdp" ? epsilonOf(spent, plan.delta) : spent };
}
