// Finding regions and iterations by name or code: finding of views.py once more.

export function words(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replaceAll(",", " ").split(/\s+/).filter(Boolean);
}

export function matches(wanted, text) {
  const have = words(text);
  return wanted.every((want) => have.some((word) => word.startsWith(want)));
}

const SIZES = ["USA", "STATE", "COUNTY", "PLACE", "AIANNH", "TRACT"];
const same = (a, b) => a.length === b.length && a.every((word, number) => word === b[number]);
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

export function regionsNamed(release, given) {
  const text = given.trim();
  const everywhere = [...release.regions];
  for (const key of release.names.keys()) if (!release.keys.has(key)) everywhere.push(regionOf(key));
  const slash = text.indexOf("/");
  const key = slash < 0 ? text.toUpperCase() + "/" : text.slice(0, slash).toUpperCase() + text.slice(slash);
  const named = everywhere.find((region) => `${region.type}/${region.id}` === key);
  if (named) return [named];
  const byId = everywhere.filter((region) => region.id === text);
  if (byId.length) return byId.sort((a, b) => compare(a.type, b.type));
  const wanted = words(text);
  if (!wanted.length) return [];
  const found = everywhere.filter((region) => {
    const name = release.name(region);
    return matches(wanted, name) || matches(wanted, `${name} ${release.within(region)}`);
  });
  const own = found.filter((region) => matches(wanted, release.name(region)));
  const exact = own.filter((region) => same(words(release.name(region)), wanted));
  const size = (region) => SIZES.indexOf(region.type.replace(/^PR-/, ""));
  return [exact, own, found].find((some) => some.length || some === found).sort((a, b) =>
    compare(!release.has(a), !release.has(b)) || size(a) - size(b) || compare(a.type, b.type) || compare(a.id, b.id));
}

function regionOf(key) {
  const [type, id] = key.split("/");
  return { type, id };
}

const SMALL = new Set("how many much people persons who are is live lives living in of the a".split(" "));
const FEW = 8, MOST_WORDS = 8;

export function groupsNamed(release, text) {
  const wanted = words(text).filter((word) => !SMALL.has(word)).slice(0, MOST_WORDS);
  for (let cut = 1; cut < wanted.length; cut += 1) {
    for (const [ofRegion, ofIteration] of [[wanted.slice(cut), wanted.slice(0, cut)], [wanted.slice(0, cut), wanted.slice(cut)]]) {
      const codes = iterationsNamed(release, ofIteration.join(" "));
      const regions = codes.length ? regionsNamed(release, ofRegion.join(" ")) : [];
      if (regions.length) return regions.slice(0, FEW).flatMap((region) => codes.slice(0, FEW).map((code) => [region, code]));
    }
  }
  return [];
}

export function iterationsNamed(release, given) {
  const text = given.trim();
  if (release.iterations.has(text)) return [text];
  const wanted = words(text);
  if (!wanted.length) return [];
  const found = [...release.iterations.values()].filter((one) => matches(wanted, `${one.code} ${one.name}`));
  const exact = found.filter((one) => same(words(one.name), wanted));
  return (exact.length ? exact : found).map((one) => one.code);
}
