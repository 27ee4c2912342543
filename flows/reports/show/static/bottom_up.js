// A bottom-up release: bottom_up.py's views over its tables as Parquet.
import { asyncBufferFromUrl, parquetReadObjects } from "./vendor/hyparquet.js";
import { csv, float, NotThere, order, pageAsked, pageOf } from "./words.js";

export async function load(folder, told) { return { folder, told, kept: new Map() }; }

async function rowsOf(release, number) {
  if (!release.kept.has(number)) {
    const file = await asyncBufferFromUrl({ url: `${release.folder}/${number}.parquet` });
    release.kept.set(number, await parquetReadObjects({ file }));
  }
  return release.kept.get(number);
}

export async function viewOf(release, asked) {
  const parts = (asked.view || "overview").split("/");
  if (parts.length === 1 && parts[0] === "overview") return release.told.overview;
  const number = release.told.tables.findIndex(([name]) => name === parts[1]);
  if (parts.length !== 2 || parts[0] !== "margin" || number < 0) throw new NotThere("this address is not a table of this release");
  return margin(release, asked, number);
}

async function margin(release, asked, number) {
  const [name, columns] = release.told.tables[number], { rows: each, choices: most } = release.told.words;
  const every = await rowsOf(release, number);
  const chosen = Object.fromEntries(columns.map((column) => [column, asked[`by_${column}`] ?? ""]));
  const rows = every.filter((row) => columns.every((column) => !chosen[column] || row[column] === chosen[column]));
  const byCode = (a, b) => columns.reduce((found, column) => found || order(a[column], b[column]), 0);
  const sort = columns.length ? asked.sort ?? "" : "";
  rows.sort((a, b) => (sort === "code" ? 0 : b.COUNT - a.COUNT) || byCode(a, b));
  const page = pageOf(rows.length, pageAsked(asked), each);
  const values = (column) => [...new Set(every.map((row) => row[column]))].sort(order);
  const offered = (column) => { const some = values(column); return some.length <= most ? some : []; };
  return {
    view: "margin",
    title: columns.join(" by ") || "Everyone",
    reading: release.told.reading,
    name,
    columns,
    choices: columns.map((column) => [column, offered(column), chosen[column]]),
    rows: rows.slice(page.from, page.to).map((row) => [...columns, "COUNT", "MOE"].map((column) => row[column])),
    sort,
    number: page.number,
    pages: page.pages,
    total: rows.length,
  };
}

export function csvOf(release, view) {
  if (view.view === "tables") {
    const rows = view.tables.map((one) => [one.name, one.words, one.rows, float(one.least_margin), float(one.most_margin)]);
    return csv([["TABLE", "BY", "ROWS", "LEAST_MOE", "MOST_MOE"], ...rows]);
  }
  return csv([[...view.columns, "COUNT", "MOE"], ...view.rows.map((row) => row.map(float))]);
}
