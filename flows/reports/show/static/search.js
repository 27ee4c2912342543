// The search of a copy: it finds names and codes in which every word of a query, or its closest word, begins a word.
// INDEX: [name, detail, file]; GROUPS: by region, codes of iterations with a page; SMALL: words that name nothing.
const searchOf = (INDEX, GROUPS, SMALL) => {
  const words = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().split(/[\s,]+/).filter(Boolean);
  const entries = INDEX.map(([name, detail, file]) => ({ name, detail, file, words: words(`${name} ${detail} ${detail.replaceAll("/", " ")}`) }));
  const named = (wanted, kind = "") => {
    const alone = ({ words: own }) => own.join(" ").startsWith(`${wanted.join(" ")} alone`);
    return entries.filter(({ file, words: own }) =>
      wanted.length && file.startsWith(kind) && wanted.every((want) => own.some((word) => word.startsWith(want))))
      .sort((one, other) => alone(other) - alone(one));
  };
  const code = ({ detail }) => detail.split(" ").pop();
  // Entries with exactly this code or name, without the regions around them; else all matches.
  const called = (wanted, kind) => {
    const found = named(wanted, kind);
    const asked = wanted.join(" ");
    const exact = found.filter((entry) => [code(entry), words(entry.name.split(", ")[0]).join(" ")].includes(asked));
    return (exact.length ? exact : found).slice(0, 100);
  };
  // The groups of a region and an iteration, named in either order; a group without a page leads to its region's.
  const groups = (wanted) => {
    for (let cut = 1; cut < wanted.length; cut += 1) {
      const [head, tail] = [wanted.slice(0, cut), wanted.slice(cut)];
      for (const [inRegion, inIteration] of [[tail, head], [head, tail]]) {
        const iterations = called(inIteration, "code-");
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
  // The number of letters by which two words differ; a replaced letter and swapped letters count as two.
  const apart = (one, other) => {
    let row = [...Array(other.length + 1).keys()];
    for (const letter of one) {
      const next = [row[0] + 1];
      for (let at = 1; at <= other.length; at += 1) {
        next.push(letter === other[at - 1] ? row[at - 1] : Math.min(row[at], next[at - 1]) + 1);
      }
      row = next;
    }
    return row[other.length];
  };
  // A query with the closest known word for each unknown one; null if a word is too far from all.
  const corrected = (wanted) => {
    const known = [...new Set(entries.flatMap((entry) => entry.words))];
    const nearest = (word) => {
      if (/\d/.test(word) || SMALL.includes(word) || known.some((one) => one.startsWith(word))) return word;
      const near = known.filter((one) => one[0] === word[0] && Math.abs(one.length - word.length) <= 2).map((one) => [apart(word, one), one]);
      const [distance, found] = near.sort((a, b) => a[0] - b[0])[0] ?? [Infinity, ""];
      return distance <= Math.max(1, 0.2 * (found.length + word.length)) ? found : null;
    };
    const found = wanted.map(nearest);
    return found.includes(null) || found.join() === wanted.join() ? null : found;
  };
  const entriesOf = (wanted) => {
    const single = named(wanted);
    return single.length ? single : groups(wanted.filter((word) => !SMALL.includes(word)).slice(0, 8));
  };
  // The entries for a query and "" or, if there are none, those for the closest query and its words.
  return (query) => {
    const found = entriesOf(words(query));
    const near = found.length ? null : corrected(words(query));
    return near ? [entriesOf(near), near.filter((word) => !SMALL.includes(word)).map((word) => word[0].toUpperCase() + word.slice(1)).join(" ")] : [found, ""];
  };
};
