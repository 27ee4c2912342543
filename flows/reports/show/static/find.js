// The page of a search in a copy.
const query = new URLSearchParams(location.search).get("q") ?? "";
const [found, nearest] = searchOf(INDEX, GROUPS, SMALL)(query);
document.getElementById("q").value = query;
document.getElementById("number").textContent =
  `${nearest ? `Nothing matches “${query}”. Showing “${nearest}”. ` : ""}${found.length} found${found.length > 100 ? ", the first 100" : ""}`;
for (const { name, detail, file } of found.slice(0, 100)) {
  const link = Object.assign(document.createElement("a"), { href: file, textContent: name });
  const note = Object.assign(document.createElement("span"), { className: "code", textContent: ` ${detail}` });
  const item = document.createElement("li");
  item.append(link, note);
  document.getElementById("found").append(item);
}
