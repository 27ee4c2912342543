// A TopDown release: views of top_down/views.py once more, over geounits and cells of persons as Parquet.
import { asyncBufferFromUrl, parquetMetadataAsync, parquetReadObjects } from "./vendor/hyparquet.js";
import { matches, words } from "./finding.js";
import { csv, float, NotThere, order, pageAsked, pageOf } from "./words.js";

const SUMS = ["PERSONS", "ADULTS", "HISPANIC", "UNITS", "OCCUPIED"];
const QUARTERS = ["HU", "GQ1", "GQ2", "GQ3", "GQ4", "GQ5", "GQ6", "GQ7"];
const US = "US";

export async function load(folder, told) {
  const rows = await parquetReadObjects({ file: await asyncBufferFromUrl({ url: `${folder}/geounits.parquet` }) });
  const byKey = new Map(rows.map((row) => [keyOf(row), row])), byLevel = new Map();
  for (const row of rows) {
    const key = `${row.KIND}/${row.LEVEL}/${row.STATE}`;
    if (byLevel.has(key)) byLevel.get(key).push(row); else byLevel.set(key, [row]);
  }
  return { folder, told, words: told.words, names: new Map(told.names.map(([type, id, name]) => [`${type}/${id}`, name])), byKey, byLevel };
}

export async function viewOf(release, asked) {
  const parts = (asked.view || "overview").split("/");
  if (parts.length === 1 && parts[0] === "overview") return release.told.overview;
  if (parts.length === 1 && parts[0] === "find") return find(release, asked.q ?? "");
  if (parts[0] === "geounit" && parts.length === 5) return geounit(release, parts.slice(1).join("/"), asked.table ?? "");
  if (parts[0] === "listing" && parts.length === 4) return listing(release, ...parts.slice(1), asked);
  throw new NotThere("this address is not a view of the page");
}

// -- views ------------------------------------------------------------------------------------------------------------

async function geounit(release, key, table) {
  const row = release.byKey.get(key);
  if (!row) throw new NotThere(`${key} is no geounit of this release`);
  const products = productsOf(release, row.KIND), offered = products.flatMap((product) => release.words.of_product[product]);
  if (table && !offered.includes(table)) throw new NotThere(`'${table}' is not a table of this geounit; it has ${offered.join(", ")}`);
  const tables = [], margins = await marginsOf(release, row);
  for (const product of products) tables.push(...(product === "units" ? [housing(release, row)] : await personTables(release, row)));
  return {
    view: "geounit",
    title: nameOf(release, row),
    reading: release.told.reading.geounit,
    margin: release.told.margin[margins.length ? 1 : 0],
    geounit: told(release, row),
    totals: { ...totals(release, row), margin: margins.find((one) => one.count === "total")?.margin ?? null },
    above: above(release, row).map((one) => told(release, one)),
    same: sameBlock(release, row).map((one) => told(release, one)),
    inside: insideOf(release, row).filter(([, lists]) => lists.length),
    tables: tables.filter((one) => one.name === table || (!table && one.name !== "races")),
    choices: offered.map((name) => [name, release.words.tables[name]]),
    chosen: table,
    answers: answers(release, row),
    margins,
  };
}

async function listing(release, kind, level, state, asked) {
  if (!release.byLevel.has(`${kind}/${level}/${state}`)) throw new NotThere(`${kind}/${level}/${state} is no list of this release`);
  const sort = asked.sort === "code" ? "code" : "", prefix = asked.in ?? "";
  const size = (row) => row.PERSONS ?? row.UNITS;
  const rows = within(release, kind, level, state, prefix)
    .sort((a, b) => (sort === "code" ? 0 : size(b) - size(a)) || order(a.CODE, b.CODE));
  const page = pageOf(rows.length, pageAsked(asked), release.words.rows), products = productsOf(release, kind);
  const margins = release.told.with_margins.includes(`${kind}/${level}/${state}`);
  if (margins) await allMargins(release);
  const inside = prefix ? release.told.kinds[kind].map((one) => release.byKey.get(`${kind}/${one}/${state}/${prefix}`)).find(Boolean)
    : release.byKey.get(`tabulation/State/${state}/${state}`);
  const words_ = titleOf(release, level, true), place = inside ? nameOf(release, inside) : release.words.states[state] ?? state;
  return {
    view: "listing",
    title: `${capital(words_)}, ${place}` + (kind.startsWith("spine_") ? ` (spine of ${products[0]})` : ""),
    reading: release.told.reading.geounit,
    margin: release.told.margin[margins ? 1 : 0],
    rows: rows.slice(page.from, page.to).map((row) => totals(release, row)),
    sort,
    within: inside ? told(release, inside) : null,
    units: products.includes("units"),
    persons: products.includes("persons"),
    margins,
    number: page.number,
    pages: page.pages,
    total: rows.length,
  };
}

function find(release, query) {
  const found = named(release, query.trim());
  return {
    view: "geounits",
    title: query ? `“${query}”` : "Find",
    reading: release.told.reading.find,
    query,
    geounits: found.slice(0, release.words.found).map((row) => told(release, row)),
    total: found.length,
    named: release.names.size > 0,
  };
}

function named(release, text) {
  if (release.byKey.has(text)) return [release.byKey.get(text)];
  const rows = [...release.byKey.values()], kinds = Object.keys(release.told.kinds);
  if (/^\d+$/.test(text)) {
    const rank = (row) => kinds.indexOf(row.KIND);
    return rows.filter((row) => row.CODE === text && row.STATE !== US).sort((a, b) => rank(a) - rank(b));
  }
  const wanted = words(text);
  if (!wanted.length) return [];
  const state = (row) => row.KIND === "tabulation" && row.LEVEL === "State";
  const first = [...rows.filter(state), ...rows.filter((row) => row.STATE === US)];
  const byName = new Map(rows.filter((row) => !state(row) && regionKey(release, row)).map((row) => [keyOf(row), row]));
  const others = [...release.names.keys()].flatMap((key) => [...byName.values()].filter((row) => regionKey(release, row) === key));
  const found = [...first, ...others].filter((row) => matches(wanted, `${nameOf(release, row)} ${release.words.states[row.STATE] ?? ""}`));
  const own = found.filter((row) => matches(wanted, nameOf(release, row)));
  const exact = own.filter((row) => words(nameOf(release, row)).join(" ") === wanted.join(" "));
  return [exact, own, found].find((some) => some.length) ?? [];
}

// -- tables -----------------------------------------------------------------------------------------------------------

async function personTables(release, row) {
  const cells = await cellsOf(release, row), { alone, races, quarters, tables, person_columns: columns } = release.words;
  const byRace = Array.from(races, () => [0, 0, 0, 0]), byQuarters = Array.from(quarters, () => [0, 0]);
  for (const { CELL: cell, COUNT: count } of cells) {
    const race = byRace[cell % 63], type = byQuarters[Math.floor(cell / 252)];
    const hispanic = Math.floor(cell / 63) % 2, adult = Math.floor(cell / 126) % 2;
    race[0] += count; race[1] += hispanic * count; race[2] += adult * count; race[3] += adult * hispanic * count;
    type[0] += count; type[1] += adult * count;
  }
  const sum = (some) => some.reduce((total, of) => total.map((value, number) => value + of[number]), [0, 0, 0, 0]);
  const few = [["all persons", sum(byRace)], ...alone.map((race, number) => [`${race} alone`, byRace[number]]), ["two or more races", sum(byRace.slice(6))]];
  const declared = row.HU === null || row.HU === undefined ? [] : ["housing units or facilities"];
  return [
    { name: "race", title: tables.race, columns, rows: few, declared: [] },
    {
      name: "quarters",
      title: tables.quarters,
      columns: ["persons", "18 and over", ...declared],
      rows: quarters.map((name, number) => [name, [...byQuarters[number], ...declared.map(() => row[QUARTERS[number]])]]),
      declared,
    },
    { name: "races", title: tables.races, columns, rows: races.map((name, number) => [name, byRace[number]]), declared: [] },
  ];
}

function housing(release, row) {
  const rows = [["housing units", [row.UNITS]], ["occupied", [row.OCCUPIED]], ["vacant", [row.UNITS - row.OCCUPIED]]];
  return { name: "housing", title: release.words.tables.housing, columns: ["units"], rows, declared: [] };
}

async function cellsOf(release, row) {
  if (!row.ROWS) return [];
  release.file ??= await asyncBufferFromUrl({ url: `${release.folder}/cells.parquet` });
  release.metadata ??= await parquetMetadataAsync(release.file);
  return parquetReadObjects({ file: release.file, metadata: release.metadata, rowStart: row.FIRST, rowEnd: row.FIRST + row.ROWS });
}

async function allMargins(release) {
  release.margins ??= await parquetReadObjects({ file: await asyncBufferFromUrl({ url: `${release.folder}/margins.parquet` }) });
  return release.margins;
}

async function marginsOf(release, row) {
  if (!row.MARGIN_ROWS) return [];
  return (await allMargins(release)).slice(row.MARGIN_FIRST, row.MARGIN_FIRST + row.MARGIN_ROWS).map((one) => (
    { product: one.PRODUCT, count: one.COUNT, released: one.RELEASED, margin: one.MARGIN ?? null, estimate: one.ESTIMATE, error: one.ERROR }));
}

function answers(release, row) {
  if (row.SHARE === null || row.SHARE === undefined) return [];
  return release.told.noise.filter(([kind, level, share]) => kind === row.KIND && level === row.LEVEL && share === row.SHARE)
    .map(([, , share, query, number, deviation, margin]) => (
      { query, share: release.told.shares[share], answers: number, first: number === 1 ? row.ANSWER : null, deviation, margin }));
}

// -- around -----------------------------------------------------------------------------------------------------------

function above(release, row) {
  if (row.STATE === US) return [];
  const top = release.told.nation ? [release.byKey.get(`tabulation/${US}/${US}/${US}`)] : [];
  const state = release.byKey.get(`tabulation/State/${row.STATE}/${row.STATE}`), { tabulation, widths } = release.words;
  if (row.KIND === "entities") {
    const county = row.LEVEL === "mcd" ? [release.byKey.get(`tabulation/County/${row.STATE}/${row.CODE.slice(0, 5)}`)] : [];
    return [...county, state, ...top];
  }
  const levels = row.KIND === "tabulation" ? tabulation : release.told.kinds[row.KIND];
  const width = (level) => (row.KIND === "tabulation" ? widths[level] : release.byLevel.get(`${row.KIND}/${level}/${row.STATE}`)[0].CODE.length);
  const found = levels.slice(0, levels.indexOf(row.LEVEL)).reverse()
    .map((level) => release.byKey.get(`${row.KIND}/${level}/${row.STATE}/${row.CODE.slice(0, width(level))}`));
  return [...found, ...top];
}

function levelsInside(release, row) {
  if (row.STATE === US || row.KIND === "entities") return [];
  const levels = release.told.kinds[row.KIND];
  return levels.slice(levels.indexOf(row.LEVEL) + 1);
}

function insideOf(release, row) {
  if (row.STATE === US) return [["In it", [["states", release.told.states.length, "overview"]]]];
  const told = (kind, level, prefix = "") => [titleOf(release, level, true), within(release, kind, level, row.STATE, prefix).length,
    `listing/${kind}/${level}/${row.STATE}${prefix ? `&in=${prefix}` : ""}`];
  const found = [["In it", levelsInside(release, row).map((level) => told(row.KIND, level, row.CODE))]];
  if (row.KIND !== "tabulation" || row.LEVEL !== "State") return found;
  const { entities = [], ...spines } = release.told.kinds;
  found.push(["Off the spine", entities.filter((level) => release.byLevel.has(`entities/${level}/${row.STATE}`)).map((level) => told("entities", level))]);
  for (const [kind, levels] of Object.entries(spines)) {
    if (kind.startsWith("spine_")) found.push([`On the spine of ${kind.slice(6)}`, levels.map((level) => told(kind, level))]);
  }
  return found;
}

function sameBlock(release, row) {
  if (row.LEVEL !== "Block") return [];
  release.blocks ??= blocksOf(release);
  return release.blocks.get(publicBlock(row)).filter((one) => one !== row);
}

function blocksOf(release) {
  const found = new Map(), rank = Object.keys(release.told.kinds);
  for (const row of release.byKey.values()) {
    if (row.LEVEL !== "Block") continue;
    const code = publicBlock(row);
    if (found.has(code)) found.get(code).push(row); else found.set(code, [row]);
  }
  for (const some of found.values()) some.sort((a, b) => rank.indexOf(a.KIND) - rank.indexOf(b.KIND));
  return found;
}

const publicBlock = (row) => (row.KIND === "tabulation" ? row.CODE : row.CODE.slice(-16, -5) + row.CODE.slice(-4));

function within(release, kind, level, state, prefix) {
  return (release.byLevel.get(`${kind}/${level}/${state}`) ?? []).filter((row) => row.CODE.startsWith(prefix));
}

// -- in words ---------------------------------------------------------------------------------------------------------

const keyOf = (row) => `${row.KIND}/${row.LEVEL}/${row.STATE}/${row.CODE}`;
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const productsOf = (release, kind) => (kind.startsWith("spine_") ? [kind.slice(6)] : release.told.products);

function titleOf(release, level, several) {
  return release.words.titles[level]?.[several ? 1 : 0] ?? level.replaceAll("_", " ").toLowerCase();
}

function regionKey(release, row) {
  const type = row.KIND.startsWith("spine_") ? null : release.words.region_types[row.LEVEL];
  if (!type) return null;
  return `${row.STATE === "72" && !["AIANNH", "COUSUB"].includes(type) ? "PR-" : ""}${type}/${row.CODE}`;
}

function nameOf(release, row) {
  const name = release.names.get(regionKey(release, row));
  if (name) return name;
  if (row.STATE === US) return "United States";
  const state = release.words.states[row.STATE] ?? `State ${row.STATE}`;
  if (row.KIND.startsWith("spine_")) {
    if (row.LEVEL === "State") return `${state}, ${row.CODE.startsWith("1") ? "AIAN areas" : "outside AIAN areas"}`;
    return `Spine ${titleOf(release, row.LEVEL)} ${row.CODE}`;
  }
  return row.LEVEL === "State" ? state : `${capital(titleOf(release, row.LEVEL))} ${row.CODE}`;
}

function told(release, row) {
  const code = row.LEVEL === US ? "" : row.CODE;
  return { key: keyOf(row), name: nameOf(release, row), kind: release.words.kinds[row.KIND], level: titleOf(release, row.LEVEL), code };
}

function totals(release, row) {
  const [persons, adults, hispanic, units, occupied] = SUMS.map((name) => row[name] ?? null);
  const own = release.margins?.slice(row.MARGIN_FIRST, row.MARGIN_FIRST + row.MARGIN_ROWS).find((one) => one.COUNT === "total");
  return { geounit: told(release, row), persons, adults, hispanic, units, occupied, margin: own?.MARGIN ?? null };
}

export function csvOf(release, view) {
  const sums = ["PERSONS", "18_AND_OVER", "HISPANIC", "HOUSING_UNITS", "OCCUPIED", "MARGIN_OF_PERSONS"];
  if (view.view === "redistricting" || view.view === "listing") {
    const rows = (view.states ?? view.rows).map((row) => [...row.geounit.key.split("/"), row.geounit.name,
      row.persons, row.adults, row.hispanic, row.units, row.occupied, float(row.margin)]);
    return csv([["KIND", "LEVEL", "STATE", "CODE", "NAME", ...sums], ...rows]);
  }
  if (view.view === "geounit") {
    const rows = view.tables.flatMap((table) => table.rows.flatMap(([label, values]) =>
      values.map((value, number) => [view.geounit.key, table.name, label, table.columns[number], value, null, null, null])));
    const margins = view.margins.map((one) => [view.geounit.key, "margins", one.count, one.product, one.released,
      ...[one.margin, one.estimate, one.error].map(float)]);
    return csv([["GEOUNIT", "TABLE", "ROW", "COLUMN", "COUNT", "MARGIN", "ESTIMATE", "STANDARD_ERROR"], ...rows, ...margins]);
  }
  return csv([["KEY", "NAME", "LEVEL", "KIND"], ...view.geounits.map((one) => [one.key, one.name, one.level, one.kind])]);
}
