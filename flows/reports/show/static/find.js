// The search of a copy: names and codes of INDEX of which every word that is asked for begins one.
const words = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().split(/[\s,]+/).filter(Boolean);
const query = new URLSearchParams(location.search).get("q") ?? "";
const wanted = words(query);
const found = INDEX.filter(([name, detail]) => {
  const own = words(`${name} ${detail}`);
  return wanted.length && wanted.every((want) => own.some((word) => word.startsWith(want)));
});
document.getElementById("q").value = query;
document.getElementById("number").textContent = `${found.length} found${found.length > 100 ? ", the first 100" : ""}`;
for (const [name, detail, file] of found.slice(0, 100)) {
  const link = Object.assign(document.createElement("a"), { href: file, textContent: name });
  const code = Object.assign(document.createElement("span"), { className: "code", textContent: ` ${detail}` });
  const item = document.createElement("li");
  item.append(link, code);
  document.getElementById("found").append(item);
}
