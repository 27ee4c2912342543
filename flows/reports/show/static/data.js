// A static copy's data: what release.py reads of a release, over two Parquet files. Exact laws are floating point here.
import { asyncBufferFromUrl, parquetMetadataAsync, parquetReadObjects } from "./vendor/hyparquet.js";

/* global gaussian, geometric, marginOfError, ALPHA */

export async function load(folder, told) {
  const groups = await parquetReadObjects({ file: await asyncBufferFromUrl({ url: `${folder}/groups.parquet` }) });
  return new Release(folder, told, groups);
}

export const keyOf = (region) => `${region.type}/${region.id}`;
const PR = "PR-";
const bare = (type) => (type.startsWith(PR) ? type.slice(PR.length) : type);
const prefixOf = (type) => (type.startsWith(PR) ? PR : "");

class Release {
  constructor(folder, told, groups) {
    this.folder = folder;
    this.told = told;
    this.words = told.words;
    this.levels = told.levels;
    this.regions = told.regions.map(([type, id]) => ({ type, id }));
    this.keys = new Set(this.regions.map(keyOf));
    this.names = new Map(told.names.map(([type, id, name]) => [`${type}/${id}`, name]));
    this.iterations = new Map(told.iterations.map(([code, name, level, nation, sub]) => [code, { code, name, level, nation, sub }]));
    this.setOf = new Map(told.sets.flatMap((members) => members.map((member) => [member.join("/"), members])));
    this.laws = told.laws.map(readLaw);
    this.groups = groups;
    this.byGroup = new Map();
    this.byRegion = new Map();
    this.byTypeAndCode = new Map();
    groups.forEach((row) => {
      this.byGroup.set(`${row.TYPE}/${row.ID}/${row.CODE}`, row);
      into(this.byRegion, `${row.TYPE}/${row.ID}`, row);
      into(this.byTypeAndCode, `${row.TYPE}/${row.CODE}`, row);
    });
    this.byType = new Map();
    this.regions.forEach((region) => into(this.byType, region.type, region));
  }

  group(region, code) { return this.levelOf(region.type, code) ? this.byGroup.get(`${keyOf(region)}/${code}`) : undefined; }

  inRegion(region) { return this.byRegion.get(keyOf(region)) ?? []; }

  totals(type, code, prefix = "") {
    return (this.byTypeAndCode.get(`${type}/${code}`) ?? []).filter((row) => row.ID.startsWith(prefix));
  }

  levelOf(type, code) {
    const iteration = this.iterations.get(code);
    return iteration && this.levels.find((level) => level.type === type && level.level === iteration.level);
  }

  // The rows of a group's table; only the row groups that hold them are fetched.
  async cells(row) {
    if (!row || !row.ROWS) return [];
    this.file ??= await asyncBufferFromUrl({ url: `${this.folder}/cells.parquet` });
    this.metadata ??= await parquetMetadataAsync(this.file);
    const range = { rowStart: row.FIRST, rowEnd: row.FIRST + row.ROWS };
    return parquetReadObjects({ file: this.file, metadata: this.metadata, ...range });
  }

  has(region) { return this.keys.has(keyOf(region)); }

  name(region) {
    const name = this.names.get(keyOf(region));
    if (name) return name;
    if (region.type === "USA") return "United States";
    if (bare(region.type) === "STATE") return this.words.states[region.id] ?? `State ${region.id}`;
    const word = this.title(region.type);
    return `${word[0].toUpperCase()}${word.slice(1)} ${region.id}`;
  }

  title(type, several = false) { return this.words.titles[bare(type)][several ? 1 : 0]; }

  parent(region) {
    const above = this.words.within[bare(region.type)];
    if (!above || region.type === "PR-STATE") return null;
    return { type: prefixOf(region.type) + above[0], id: region.id.slice(0, above[1]) || "1" };
  }

  childTypes(region) {
    const own = bare(region.type), first = this.words.add_up[own];
    const inside = Object.keys(this.words.within).filter((below) => this.words.within[below][0] === own);
    return [...inside.filter((below) => below === first), ...inside.filter((below) => below !== first)]
      .map((below) => prefixOf(region.type) + below);
  }

  addsUpFrom(region) {
    const below = this.words.add_up[bare(region.type)];
    return below && prefixOf(region.type) + below;
  }

  childPrefix(region) { return region.type === "USA" ? "" : region.id; }

  regionsIn(type, prefix = "") { return (this.byType.get(type) ?? []).filter((region) => region.id.startsWith(prefix)); }

  allTold(type) { return this.told.all_listed[type] ?? false; }

  complete(region) { return !this.told.scope.level && (this.told.scope.state === null || region.type !== "USA"); }

  coterminous(region) {
    return (this.setOf.get(keyOf(region)) ?? []).filter((member) => member.join("/") !== keyOf(region))
      .map(([type, id]) => ({ type, id }));
  }

  above(region) {
    const found = [];
    for (let parent = this.parent(region); parent; parent = this.parent(parent)) if (this.has(parent)) found.push(parent);
    return found;
  }

  within(region) {
    return this.above(region).filter((one) => one.type !== "USA").map((one) => this.name(one)).join(", ");
  }

  // The law of a published row's cells, null in a release without noise, and how many cells it sums.
  noise(row) { return { law: row.LAW < 0 ? null : this.laws[row.LAW], cells: this.words.cells[row.SHAPE] }; }
}

const readLaw = (told) => (told[0] === "gaussian" ? gaussian(told[1]) : geometric(told[1]));

function into(map, key, value) {
  const held = map.get(key);
  if (held) held.push(value); else map.set(key, [value]);
}

// The 95% margin of a sum or difference of independent cells of several laws: as privacy does it with balls.
export function marginOfCells(parts) {
  const together = new Map();
  for (const { law, cells } of parts) if (law && cells) together.set(law, (together.get(law) ?? 0) + cells);
  const laws = [...together];
  if (!laws.length) return 0;
  if (laws.length === 1) return marginOfError(laws[0][0], laws[0][1]);
  const variance = laws.reduce((sum, [law, cells]) => sum + cells * law.variance, 0);
  const sum = { variance: variance / 2, characteristic: (t) => laws.reduce((product, [law, cells]) => product * law.characteristic(t) ** (cells / 2), 1) };
  return marginOfError(sum, 2); // two halves: by Fourier inversion, never as the quantile of one law
}
