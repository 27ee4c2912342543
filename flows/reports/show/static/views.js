// The views of a static copy: views.py once more, over data.js. A test holds the two pages against each other.
import { keyOf, marginOfCells } from "./data.js";
import { groupsNamed, iterationsNamed, matches, regionsNamed, words } from "./finding.js";
import { comma, NotThere, order, pageAsked, pageOf } from "./words.js";

const LAST_AGE = 115;
const SEXES = { 1: "male", 2: "female" };

export async function viewOf(release, asked) {
  const parts = (asked.view ?? "overview").split("/");
  const page = pageAsked(asked);
  if (parts[0] === "overview" || parts[0] === "") return release.told.overview;
  if (parts[0] === "find") return find(release, asked.q ?? "");
  if (parts[0] === "region" && parts.length === 3) return region(release, regionAt(release, parts[1], parts[2]), asked, page);
  if (parts[0] === "iteration" && parts.length === 2) return iteration(release, parts[1], asked, page);
  if (parts[0] === "group" && parts.length === 4) return group(release, regionAt(release, parts[1], parts[2]), parts[3]);
  if (parts[0] === "compare") return compare(release, asked);
  throw new NotThere("this address is not a view of the page");
}

function regionAt(release, type, id) {
  if (!(type.replace(/^PR-/, "") in release.words.titles)) throw new NotThere(`'${type}' is not a region type`);
  return { type, id };
}

function groupAt(release, text) {
  const parts = text.split("/");
  if (parts.length !== 3) throw new NotThere(`'${text}' is not a group: TYPE/REGION/ITERATION`);
  return { region: regionAt(release, parts[0], parts[1]), code: parts[2] };
}

function region(release, of, asked, number) {
  if (!release.has(of)) throw new NotThere(noRegion(release, of));
  let rows = release.inRegion(of);
  const levelOf = (row) => release.iterations.get(row.CODE).level;
  const counts = release.levels.filter((level) => level.type === of.type)
    .map((level) => [release.words.levels[level.level], rows.filter((row) => levelOf(row) === level.level).length, level.iterations]);
  const wanted = words(asked.q_iteration ?? "");
  rows = rows.filter((row) => (!asked.level || String(levelOf(row)) === asked.level)
    && matches(wanted, `${row.CODE} ${release.iterations.get(row.CODE).name}`));
  rows.sort((a, b) => (asked.sort === "code" ? 0 : b.COUNT - a.COUNT) || order(a.CODE, b.CODE));
  const kinds = release.complete(of) ? release.childTypes(of) : [];
  const inside = kinds.map((type) => [release.title(type, true), release.regionsIn(type, release.childPrefix(of))]);
  return {
    view: "region",
    title: release.name(of),
    reading: release.told.reading.region,
    region: regionTold(release, of),
    above: release.above(of).map((one) => regionTold(release, one)),
    coterminous: release.coterminous(of).map((one) => regionTold(release, one)),
    inside: inside.filter(([, some]) => some.length)
      .map(([kinds, some]) => [kinds, some.length, some.slice(0, release.words.listed).map((one) => regionTold(release, one))]),
    page: paged(release, rows, number),
    asked: { q: asked.q_iteration ?? "", level: asked.level ?? "", sort: asked.sort ?? "" },
    counts,
  };
}

function iteration(release, code, asked, number) {
  const told = known(release, code);
  const parts = (asked.in ?? "").split("/");
  const within = parts.length === 2 ? regionAt(release, ...parts) : null;
  const prefix = within ? release.childPrefix(within) : "";
  const types = within ? release.childTypes(within) : null;
  const byType = release.levels.filter((level) => level.level === told.level && (!types || types.includes(level.type)))
    .map((level) => {
      const whole = !prefix && release.told.scope.state === null;
      const known = release.regionsIn(level.type, prefix).length;
      const of = whole ? level.regions : release.allTold(level.type) ? known : null;
      const address = `iteration/${code}&type=${level.type}` + (within ? `&in=${keyOf(within)}` : "");
      return { type: level.type, of, address, rows: release.totals(level.type, code, prefix) };
    });
  if (!byType.length) throw new NotThere(`nothing was tabulated of iteration ${code} there`);
  if (within && !release.complete(within)) throw new NotThere(release.told.scope.words);
  const chosen = asked.type ? byType.find((one) => one.type === asked.type) : byType.find((one) => one.rows.length) ?? byType[0];
  if (!chosen) throw new NotThere(`${asked.type} is not a region type that this iteration is tabulated for`);
  const rows = chosen.rows.sort((a, b) => (asked.sort === "code" ? 0 : b.COUNT - a.COUNT) || order(a.ID, b.ID));
  return {
    view: "iteration",
    title: told.name + (within ? `, ${release.name(within)}` : ""),
    reading: release.told.reading.iteration,
    iteration: iterationTold(release, told),
    within: within ? regionTold(release, within) : null,
    chosen: chosen.type,
    kinds: release.title(chosen.type, true),
    by_type: byType.map((one) => [one.type, release.title(one.type, true), one.rows.length, one.of, one.address]),
    page: paged(release, rows, number),
    asked: { type: asked.type ?? "", in: within ? keyOf(within) : "", sort: asked.sort ?? "" },
  };
}

async function group(release, of, code) {
  const told = known(release, code);
  const published = release.group(of, code);
  if (!published && !release.has(of) && !release.names.has(keyOf(of))) throw new NotThere(noRegion(release, of));
  const above = release.parent(of);
  const parent = above && release.has(above) ? above : null;
  const shape = published && release.words.shapes[published.SHAPE];
  return {
    view: "group",
    title: `${told.name}, ${release.name(of)}`,
    reading: release.told.reading[published ? "group" : "missing"],
    group: groupTold(release, of, told, published),
    estimate: published && release.told.estimated ? estimateTold(published) : null,
    law: lawWords(release, published),
    pyramid: published && shape !== "total" ? pyramid(await release.cells(published)) : null,
    coterminous: release.coterminous(of).map((one) => regionTold(release, one)),
    parents: release.above(of).map((one) => groupTold(release, one, told, release.group(one, code))),
    siblings: parent ? inside(release, parent, told, of.type, null) : null,
    children: release.childTypes(of)
      .map((type) => inside(release, of, told, type, type === release.addsUpFrom(of) ? published : null)).filter(Boolean),
  };
}

async function compare(release, asked) {
  const a = groupAt(release, asked.a ?? "");
  let b = asked.b ? groupAt(release, asked.b) : null;
  let regions = [a.region], iterations = [a.code];
  if (!b) {
    if (asked.region) regions = regionsNamed(release, asked.region);
    if (asked.iteration) iterations = iterationsNamed(release, asked.iteration);
    if (regions.length === 1 && iterations.length === 1) b = { region: regions[0], code: iterations[0] };
  }
  const first = release.group(a.region, a.code);
  const one = groupTold(release, a.region, known(release, a.code), first);
  const plain = { a: `${keyOf(a.region)}/${a.code}`, region: asked.region ?? "", iteration: asked.iteration ?? "" };
  const empty = { view: "compare", a: one, b: null, same: false, total: null, rows: [], pyramids: [], regions: [], iterations: [] };
  if (!b) {
    return {
      ...empty,
      title: `Compare ${one.iteration.name}, ${one.region.name}`,
      reading: release.told.reading.find,
      asked: plain,
      regions: regions.slice(0, release.words.found).map((region) => regionTold(release, region)),
      iterations: iterations.slice(0, release.words.found).map((code) => iterationTold(release, known(release, code))),
    };
  }
  const second = release.group(b.region, b.code);
  const other = groupTold(release, b.region, known(release, b.code), second);
  const same = Boolean(first && second && first.SOURCE === second.SOURCE);
  const cells = [await release.cells(first), await release.cells(second)];
  const pyramids = cells.every((of) => of.length) ? summed(release, [first, second], cells).map(pyramid) : [];
  const top = Math.max(...pyramids.map((of) => of.top));
  return {
    ...empty,
    title: `${one.iteration.name}, ${one.region.name}, beside ${other.iteration.name}, ${other.region.name}`,
    reading: release.told.reading[same ? "same" : "compare"],
    b: other,
    same,
    total: first && second ? difference("all ages", "both", first.COUNT, second.COUNT, same ? [] : [release.noise(first), release.noise(second)]) : null,
    rows: first && second ? differences(release, first, second, ...cells, same) : [],
    pyramids: pyramids.map((of) => ({ ...of, top })),
    asked: { ...plain, b: `${keyOf(b.region)}/${b.code}` },
  };
}

function find(release, query) {
  const regions = regionsNamed(release, query), iterations = iterationsNamed(release, query);
  const groups = regions.length || iterations.length ? [] : groupsNamed(release, query);
  return {
    view: "find",
    title: query ? `“${query}”` : "Find",
    reading: release.told.reading.find,
    query,
    regions: regions.slice(0, release.words.found).map((one) => regionTold(release, one)),
    regions_total: regions.length,
    iterations: iterations.slice(0, release.words.found).map((code) => iterationTold(release, known(release, code))),
    iterations_total: iterations.length,
    groups: groups.map(([region, code]) => [`${keyOf(region)}/${code}`, `${release.iterations.get(code).name}, ${release.name(region)}`]),
    named: release.names.size > 0,
  };
}

// -- parts ------------------------------------------------------------------------------------------------------------

function known(release, code) {
  const found = release.iterations.get(code);
  if (!found) throw new NotThere(`'${code}' is not an iteration of this release`);
  return found;
}

function noRegion(release, region) {
  if (release.allTold(region.type)) return `${keyOf(region)} is not a region of this release`;
  return `${keyOf(region)} has no published count in this release: all of its groups are suppressed, or it is no region of it`;
}

function regionTold(release, region) {
  return { key: keyOf(region), name: release.name(region), kind: release.title(region.type), id: region.id, within: release.within(region) };
}

function iterationTold(release, of) { return { code: of.code, name: of.name, level: release.words.levels[of.level] }; }

function groupTold(release, region, of, row) {
  const told = { key: `${keyOf(region)}/${of.code}`, region: regionTold(release, region), iteration: iterationTold(release, of) };
  if (!row) {
    const [status, why] = unpublished(release, region, of);
    return { ...told, status, why };
  }
  return {
    ...told,
    status: "published",
    why: "",
    count: row.COUNT,
    margin: row.MOE,
    low: row.COUNT - row.MOE,
    high: row.COUNT + row.MOE,
    relative: row.COUNT > 0 ? row.MOE / row.COUNT : null,
    shape: release.words.shape_words[release.words.shapes[row.SHAPE]],
    estimate: row.ESTIMATE ?? null,
    estimate_margin: row.ESTIMATE_MOE ?? null,
  };
}

function estimateTold(row) {
  const estimate = row.ESTIMATE ?? null, margin = row.ESTIMATE_MOE ?? null;
  const some = estimate !== null;
  return { estimate, margin, low: some ? estimate - margin : null, high: some ? estimate + margin : null };
}

const tabulated = (of, level) => (level.nation_or_state ? of.nation : of.sub);

function unpublished(release, region, of) {
  const level = release.levelOf(region.type, of.code), kinds = release.title(region.type, true);
  if (!level) return ["not tabulated", `The run measured no ${release.words.levels[of.level]} groups of ${kinds}.`];
  if (tabulated(of, level) === false) return ["not tabulated", `Of this iteration nothing is tabulated for ${kinds}.`];
  if (!release.has(region)) return ["not known", "Nothing was published for this region: all of its groups are suppressed, or it is not in the run."];
  if (tabulated(of, level) === null) {
    const where = level.nation_or_state ? "the nation and the states" : "areas below the state";
    return ["not known", `No such group was published in ${where}: all were suppressed, or none is tabulated there.`];
  }
  if (level.suppressed_up_to === null) return ["not tabulated", `Nothing is suppressed for ${kinds}, so this group was not measured.`];
  return ["suppressed", `Suppressed: its noisy total was at most ${comma(level.suppressed_up_to)}.`];
}

function paged(release, rows, asked) {
  const { number, pages, from, to } = pageOf(rows.length, asked, release.words.rows);
  return { rows: rows.slice(from, to).map((row) => rowTold(release, row)), number, pages, total: rows.length };
}

function rowTold(release, row) {
  return groupTold(release, { type: row.TYPE, id: row.ID }, release.iterations.get(row.CODE), row);
}

function lawWords(release, row) {
  const { law, cells } = row ? release.noise(row) : { law: null };
  if (!law) return "";
  const deviation = Math.sqrt(law.variance * cells);
  const spread = deviation >= 100 ? comma(deviation) : String(Number(deviation.toPrecision(3)));
  const of = cells === 1 ? "one noisy answer" : `the sum of ${cells} noisy cells`;
  return `${of}, ${law.sigma ? "discrete Gaussian" : "two-sided geometric"}; standard deviation ${spread}`;
}

function inside(release, within, of, type, parent) {
  const level = release.levelOf(type, of.code);
  const regions = release.regionsIn(type, release.childPrefix(within));
  if (!release.complete(within) || !level || tabulated(of, level) === false || !regions.length) return null;
  const rows = release.totals(type, of.code, release.childPrefix(within)).sort((a, b) => b.COUNT - a.COUNT || order(a.ID, b.ID));
  return {
    type,
    kinds: release.title(type, true),
    address: `iteration/${of.code}&type=${type}&in=${keyOf(within)}`,
    rows: rows.slice(0, release.words.few).map((row) => rowTold(release, row)),
    published: rows.length,
    regions: regions.length,
    all_listed: release.allTold(type),
    sums: parent && tabulated(of, level) ? sums(release, level, parent, rows, regions) : null,
  };
}

function sums(release, level, parent, rows, regions) {
  const missing = regions.length - rows.length;
  const total = rows.reduce((sum, row) => sum + row.COUNT, 0);
  const shared = new Set(rows.filter((row) => row.SOURCE === parent.SOURCE).map((row) => row.SOURCE));
  const noises = [parent, ...rows].filter((row) => !shared.has(row.SOURCE)).map((row) => release.noise(row));
  const law = level.law === null ? null : release.laws[level.law];
  const margin = release.noise(parent).law ? marginOfCells([...noises, { law, cells: missing }]) : 0;
  const told = {
    sum: total,
    difference: parent.COUNT - total,
    margin,
    published: rows.length,
    missing,
    at_most: level.suppressed_up_to,
    missing_at_most: missing * Math.max(level.suppressed_up_to ?? 0, 0),
    all_listed: release.allTold(level.type),
  };
  return { ...told, verdict: verdict(told) };
}

function verdict(of) {
  const apart = comma(Math.abs(of.difference)), margin = comma(of.margin);
  if (of.missing === 0 && of.all_listed) {
    if (Math.abs(of.difference) <= of.margin) return `The parent and its parts differ by ${apart}; noise alone explains up to ${margin}.`;
    return `The parent and its parts differ by ${apart}, more than the ${margin} that noise alone stays within in 95 of 100 runs.`;
  }
  const some = of.missing ? `${comma(of.missing)} of the parts ${of.missing === 1 ? "is" : "are"}` : "some parts may be";
  const upTo = of.missing ? ` What is suppressed can lift the parent by up to ${comma(of.missing_at_most)} more.` : "";
  return `The published parts sum to ${apart} ${of.difference >= 0 ? "less" : "more"} than the parent, but ${some} missing from the sum; were all published, noise alone would explain up to ${margin}.${upTo}`;
}

// -- sex by age -------------------------------------------------------------------------------------------------------

function pyramid(cells) {
  const sums = {}, ages = new Map();
  for (const cell of cells) {
    if (cell.START < 0) sums[cell.SEX] = cell;
    else ages.set(cell.START, { ...ages.get(cell.START), [cell.SEX]: cell });
  }
  const rows = [...ages].sort(([a], [b]) => a - b).map(([start, of]) => ({
    label: ageLabel(start, of[1].END),
    start,
    end: of[1].END,
    male: of[1].COUNT,
    male_margin: of[1].MOE,
    female: of[2].COUNT,
    female_margin: of[2].MOE,
    ...estimates(of),
  }));
  const most = Math.max(...rows.map((row) => Math.max(row.male + row.male_margin, row.female + row.female_margin, 1)));
  return { ages: rows, male: sums[1].COUNT, male_margin: sums[1].MOE, female: sums[2].COUNT, female_margin: sums[2].MOE, top: nice(most),
    estimated: (sums[1].ESTIMATE ?? null) !== null, ...estimates(sums) };
}

function estimates(of) {
  const [male, female] = [1, 2].map((sex) => estimateTold(of[sex]));
  return { male_estimate: male.estimate, male_estimate_margin: male.margin, female_estimate: female.estimate, female_estimate_margin: female.margin };
}

// The tables of two groups in the ages that both have: each sum of cells with the margin of the sum.
function summed(release, groups, tables) {
  const shape = Math.min(...groups.map((row) => row.SHAPE));
  return groups.map((row, number) => [
    ...tables[number].filter((cell) => cell.START < 0).map((cell) => ({ ...cell, ESTIMATE: null, ESTIMATE_MOE: null })),
    ...agesOf(release, shape).flatMap(([start, end]) => [1, 2].map((sex) => {
      const sum = between(release, row, tables[number], sex, start, end);
      return { START: start, END: end, SEX: sex, COUNT: sum.count, MOE: marginOfCells([sum]) };
    })),
  ]);
}

function agesOf(release, shape) {
  const starts = release.words.starts[release.words.shapes[shape]];
  return starts.map((start, number) => [start, (starts[number + 1] ?? LAST_AGE + 1) - 1]);
}

function nice(number) {
  for (let step = 1; ; step *= 10) for (const times of [1, 2, 4, 6, 8]) if (times * step >= number) return times * step;
}

function ageLabel(start, end) {
  if (end >= LAST_AGE) return `${start} and over`;
  return start === end ? `${start}` : `${start}–${end}`;
}

function difference(label, sex, a, b, noises) {
  return { label, sex, a, b, difference: a - b, margin: marginOfCells(noises) };
}

function differences(release, a, b, ofA, ofB, same) {
  if (!ofA.length || !ofB.length) return [];
  const ages = [[0, LAST_AGE], ...agesOf(release, Math.min(a.SHAPE, b.SHAPE))];
  return ages.flatMap(([start, end]) => [1, 2].map((sex) => {
    const [one, other] = [[a, ofA], [b, ofB]].map(([row, cells]) => between(release, row, cells, sex, start, end));
    const label = start === 0 && end === LAST_AGE ? "all ages" : ageLabel(start, end);
    return difference(label, SEXES[sex], one.count, other.count, same ? [] : [one, other]);
  }));
}

function between(release, row, cells, sex, start, end) {
  const rows = cells.filter((cell) => cell.SEX === sex && cell.START >= start && cell.START <= end);
  const whole = start === 0 && end === LAST_AGE;
  const count = whole
    ? cells.find((cell) => cell.SEX === sex && cell.START < 0).COUNT
    : rows.reduce((sum, cell) => sum + cell.COUNT, 0);
  return { law: release.noise(row).law, cells: rows.length, count };
}
