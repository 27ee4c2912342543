// The search of a copy: names and codes of INDEX of which every word that is asked for begins one.
const words = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().split(/[\s,]+/).filter(Boolean);
const entries = INDEX.map(([name, detail, file]) => ({ name, detail, file, words: words(`${name} ${detail}`) }));
const named = (wanted, kind = "") =>
  entries.filter(({ file, words: own }) =>
    wanted.length && file.startsWith(kind) && wanted.every((want) => own.some((word) => word.startsWith(want))));
const code = ({ detail }) => detail.split(" ").pop();
// Those whose code or whole name, without what they lie in, is asked for; else all that are named.
const called = (wanted, kind) => {
  const found = named(wanted, kind);
  const asked = wanted.join(" ");
  const exact = found.filter((entry) => [code(entry), words(entry.name.split(", ")[0]).join(" ")].includes(asked));
  return (exact.length ? exact : found).slice(0, 8);
};
// The groups of a region and an iteration side by side, in either order; one without a page is on its region's.
const groups = (wanted) => {
  for (let cut = 1; cut < wanted.length; cut += 1) {
    const [head, tail] = [wanted.slice(0, cut), wanted.slice(cut)];
    for (const [inRegion, inIteration] of [[tail, head], [head, tail]]) {
      const iterations = called(inIteration, "iteration-");
      const found = (iterations.length ? called(inRegion, "region-") : []).flatMap((region) =>
        iterations.map((iteration) => {
          const key = region.file.slice("region-".length, -".html".length);
          const own = (GROUPS[key] ?? []).includes(code(iteration));
          const file = own ? `group-${key}-${code(iteration)}.html` : region.file;
          return { name: `${iteration.name}, ${region.name}`, detail: own ? "" : "in the list of its region", file };
        }));
      if (found.length) return found;
    }
  }
  return [];
};
const query = new URLSearchParams(location.search).get("q") ?? "";
const wanted = words(query);
const single = named(wanted);
const found = single.length ? single : groups(wanted.filter((word) => !SMALL.includes(word)).slice(0, 8));
document.getElementById("q").value = query;
document.getElementById("number").textContent = `${found.length} found${found.length > 100 ? ", the first 100" : ""}`;
for (const { name, detail, file } of found.slice(0, 100)) {
  const link = Object.assign(document.createElement("a"), { href: file, textContent: name });
  const note = Object.assign(document.createElement("span"), { className: "code", textContent: ` ${detail}` });
  const item = document.createElement("li");
  item.append(link, note);
  document.getElementById("found").append(item);
}
