// The tables of a release in one file: the data is unpacked, and the part behind # in the address says which table is
// shown, filtered and sorted how.
const unpack = async (text) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
};
const ROWS = 100; // of a page
const CHOICES = 200; // values in a list to choose from
const number = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 12 }).replace("-", "−");
const make = (name, text = "", more = {}) => Object.assign(document.createElement(name), { textContent: text, ...more });
const within = (name, parts, more) => { const made = make(name, "", more); made.append(...parts); return made; };
const main = document.getElementById("main");

const tableOf = (caption, heads, rows) => {
  const cells = (row) => row.map((one, at) => within(at || heads[at].numeric ? "td" : "th", [one ?? ""], at || heads[at].numeric ? { className: heads[at].numeric ? "n" : "" } : { scope: "row" }));
  const head = heads.map(({ content, numeric, title }) => within("th", [content], { scope: "col", className: numeric ? "n" : "", title: title ?? "" }));
  const whole = within("table", [make("caption", caption), within("thead", [within("tr", head)]), within("tbody", rows.map((row) => within("tr", cells(row))))]);
  return within("div", [whole], { className: "wide", tabIndex: 0, ariaLabel: caption, role: "region" });
};
// A table as a file of CSV, made in the browser; text that would be a formula gets an apostrophe, as in tasks/pages/csv_text.py.
const inert = (text) => (/^[=+\-@\t\r]/.test(text) && !/^(?:[-+0-9.,%() ]|to)+$/.test(text) ? `'${text}` : text);
const saved = (name, columns, rows) => {
  const cell = (value) => `"${inert(String(value ?? "")).replaceAll('"', '""')}"`;
  const text = [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n");
  const file = new Blob([`${text}\n`], { type: "text/csv" });
  return within("p", [make("a", "These rows as CSV", { className: "csv", download: `${name}.csv`, href: URL.createObjectURL(file) })]);
};

const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().split(/[\s,]+/).filter(Boolean);
// Whether a row has the chosen codes, and each word of a query begins a word, or the query a code, of one of its columns.
const filterOf = ({ columns }, asked) => {
  const wanted = folded(asked.get("q") ?? "");
  const filtered = columns.map((column, at) => ({ ...column, at })).filter((column) => column.filtered);
  const chosen = filtered.filter(({ name }) => asked.get(`by_${name}`));
  const known = new Map();
  const matches = (words, code) => {
    const text = `${words[code] ?? ""} ${code}`;
    if (!known.has(text)) {
      const own = folded(text);
      known.set(text, wanted.every((want) => own.some((word) => word.startsWith(want))));
    }
    return known.get(text);
  };
  return (row) => chosen.every(({ name, at }) => String(row[at]) === asked.get(`by_${name}`))
    && (!wanted.length || filtered.some(({ words, at }) => matches(words, String(row[at]))));
};
const sorted = ({ columns }, rows, sort) => {
  const at = columns.findIndex(({ name }) => name === sort.replace(/^-/, ""));
  if (at < 0) return rows;
  const way = sort.startsWith("-") ? -1 : 1;
  return [...rows].sort((a, b) => way * (a[at] < b[at] ? -1 : +(a[at] > b[at])));
};

const start = ({ title, reading, tables }) => {
  const address = (asked, more) => `#${new URLSearchParams({ ...Object.fromEntries(asked), ...more })}`;
  const link = (text, hash) => make("a", text, { href: hash });
  const home = () => [tableOf("Tables", [{ content: "table" }, { content: "rows", numeric: true }], tables.map((one) => [link(one.title, `#table=${one.name}`), number(one.rows.length)]))];
  const form = ({ columns, rows }, asked) => {
    const fields = columns.map((column, at) => ({ ...column, at })).filter(({ filtered }) => filtered).map(({ name, title: heading, words, at }) => {
      const codes = [...new Set(rows.map((row) => row[at]))];
      if (codes.length < 2 || codes.length > CHOICES) return null;
      const options = codes.filter((code) => code !== null).sort().map((code) => make("option", words[code] ?? code, { value: code, selected: String(code) === asked.get(`by_${name}`) }));
      return within("label", [`${heading} `, within("select", [make("option", "all", { value: "" }), ...options], { name: `by_${name}` })]);
    }).filter(Boolean);
    const find = within("label", ["Find ", make("input", "", { name: "q", type: "search", value: asked.get("q") ?? "", placeholder: "name or code" })]);
    const made = within("form", [...fields, find, make("button", "Show")], { className: "filter" });
    made.addEventListener("submit", (event) => {
      event.preventDefault();
      const typed = [...new FormData(made)].filter(([, value]) => value);
      location.hash = new URLSearchParams([["table", asked.get("table")], ...typed]);
    });
    return made;
  };
  const rowsOf = (table, asked) => {
    const { name, columns } = table;
    const rows = sorted(table, table.rows.filter(filterOf(table, asked)), asked.get("sort") ?? "");
    const page = Math.min(Math.max(1, Number(asked.get("page")) || 1), Math.ceil(rows.length / ROWS) || 1);
    const heads = columns.map((column) => ({ numeric: column.numeric, title: column.meaning,
      content: link(column.title, address(asked, { sort: (column.numeric && asked.get("sort") !== `-${column.name}` ? "-" : "") + column.name, page: 1 })) }));
    const shown = rows.slice((page - 1) * ROWS, page * ROWS).map((row) => row.map((value, at) => {
      const { numeric, words } = columns[at];
      if (numeric && value !== null) return number(value);
      return words[value] ? within("span", [`${words[value]} `, make("span", value, { className: "code" })]) : value;
    }));
    const others = [page > 1 && link("previous", address(asked, { page: page - 1 })), ` page ${number(page)} of ${number(Math.ceil(rows.length / ROWS) || 1)} `,
      page * ROWS < rows.length && link("next", address(asked, { page: page + 1 }))].filter(Boolean);
    const named = columns.map((column, at) => ({ ...column, at })).filter(({ words }) => Object.keys(words).length);
    const plain = rows.map((row) => [...row, ...named.map(({ words, at }) => words[row[at]] ?? "")]);
    return [make("p", reading, { className: "note" }), form(table, asked), tableOf(`${number(rows.length)} rows`, heads, shown),
      within("p", others), saved(name, [...columns.map((column) => column.name), ...named.map((column) => `${column.name}_NAME`)], plain)];
  };
  const show = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    const table = tables.find(({ name }) => name === asked.get("table"));
    const heading = table ? table.title : title;
    document.title = heading;
    main.replaceChildren(make("h1", heading), ...(table ? rowsOf(table, asked) : home()));
    if (asked.get("table")) main.focus();
  };
  addEventListener("hashchange", show);
  show();
};
