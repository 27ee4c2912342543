// The tables of a release in one file: the data is unpacked, and the part behind # in the address says which table is
// shown, filtered and sorted how.
const unpack = async (text) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
};
const ROWS = 100; // of a page
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
// A table as a file of CSV, made in the browser; text that would be a formula gets an apostrophe, as in tasks/pages/text_table.py.
const inert = (text) => (/^[=+\-@\t\r]/.test(text) && !/^(?:[-+0-9.,%() ]|to)+$/.test(text) ? `'${text}` : text);
const saved = (name, columns, rows) => {
  const cell = (value) => `"${inert(String(value ?? "")).replaceAll('"', '""')}"`;
  const text = [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n");
  const file = new Blob([`${text}\n`], { type: "text/csv" });
  return within("p", [make("a", "These rows as CSV", { className: "csv", download: `${name}.csv`, href: URL.createObjectURL(file) })]);
};

const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().split(/[\s,]+/).filter(Boolean);
// Whether a row has the codes or words that were typed (`44*`: codes that begin so), and each word of a query in one of
// its columns.
const filterOf = ({ columns }, asked) => {
  const filtered = columns.map((column, at) => ({ ...column, at })).filter((column) => column.filtered);
  const chosen = filtered.map(({ name, words, at }) => ({ words, at, wanted: asked.get(`by_${name}`) })).filter(({ wanted }) => wanted);
  const typed = (words, code, wanted) => code === wanted || (wanted.length > 1 && wanted.endsWith("*") && code.startsWith(wanted.slice(0, -1)))
    || words[code]?.toLowerCase() === wanted.trim().toLowerCase();
  const queries = folded(asked.get("q") ?? "").map((word) => ({ word, known: filtered.map(() => new Map()) }));
  const begins = (known, words, code, word) => {
    if (!known.has(code)) known.set(code, folded(`${words[code] ?? ""} ${code}`).some((one) => one.startsWith(word)));
    return known.get(code);
  };
  return (row) => chosen.every(({ words, at, wanted }) => typed(words, String(row[at]), wanted))
    && queries.every(({ word, known }) => filtered.some(({ words, at }, place) => begins(known[place], words, String(row[at]), word)));
};
const sorted = ({ columns }, rows, sort) => {
  const at = columns.findIndex(({ name }) => name === sort.replace(/^-/, ""));
  if (at < 0) return rows;
  const way = sort.startsWith("-") ? -1 : 1;
  return [...rows].sort((a, b) => way * (a[at] < b[at] ? -1 : +(a[at] > b[at])));
};

// The population pyramid of a table, as tasks/detailed_dhca/pyramid.py draws it: areas are persons.
const YEAR = 4.4, BOTTOM = 480, LENGTH = 196;
const endOfAxis = (most) => {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 6, 8, 10, 20].map((times) => times * power).find((end) => end >= most);
};
const pyramid = (ages, sexes, label) => {
  const years = ages.map(([, first, last]) => (last >= 115 ? 100 : last + 1) - first);
  const most = endOfAxis(Math.max(0.01, ...sexes.flatMap(({ cells, margin }) => cells.map((count, at) => (count + margin) / years[at]))));
  const length = (count, at) => (LENGTH * Math.max(count, 0)) / years[at] / most;
  const apart = ages.some(([, first], at) => at && (first - ages[at - 1][1]) * YEAR < 14);
  const last = ages.at(-1)[1];
  const tens = apart ? [...Array(Math.ceil(last / 10)).keys()].map((ten) => 10 * ten).filter((age) => (last - age) * YEAR >= 14) : ages.slice(0, -1).map(([, first]) => first);
  const parts = [...tens, last].map((age) => `<text x="240" y="${BOTTOM - age * YEAR + 4}" text-anchor="middle">${age}${age === last ? "+" : ""}</text>`);
  for (const { name, cells, margin, estimates, zero, way } of sexes) {
    for (const part of [0, 0.5, 1]) {
      const x = zero + way * LENGTH * part;
      parts.push(`<line class="${part ? "grid" : "axis"}" x1="${x}" x2="${x}" y1="40" y2="${BOTTOM}"/><text x="${x}" y="${BOTTOM + 16}" text-anchor="${part < 1 ? "middle" : way < 0 ? "start" : "end"}">${number(+(most * part).toPrecision(3))}</text>`);
    }
    cells.forEach((count, at) => {
      const high = years[at] * YEAR, top = BOTTOM - (ages[at][1] + years[at]) * YEAR, middle = top + high / 2, wide = length(count, at);
      const [low, far] = [count - margin, count + margin].map((end) => zero + way * length(end, at));
      const half = Math.min(5, high / 2 + 0.8), mark = estimates && zero + way * length(estimates[at], at);
      parts.push(`<rect class="${name}${ages[at][2] >= 115 ? " open" : ""}" x="${Math.min(zero, zero + way * wide).toFixed(1)}" y="${(top + 0.4).toFixed(1)}" width="${wide.toFixed(1)}" height="${(high - 0.8).toFixed(1)}"><title>${ages[at][0]}, ${name}: ${number(count)} ± ${number(margin)}</title></rect>`,
        count + margin > 0 ? `<path class="whisker" d="M${low} ${middle}H${far}"/>` : "",
        estimates ? `<path class="estimate" d="M${mark} ${middle - half}l${half} ${half}-${half} ${half}-${half}-${half}z"/>` : "");
    });
    parts.push(`<text x="${zero}" y="14" text-anchor="${way < 0 ? "end" : "start"}" class="side">${name}</text>`);
  }
  const figure = make("figure");
  figure.innerHTML = `<svg class="pyramid" viewBox="0 0 480 ${BOTTOM + 40}" role="img" aria-label="${label}">${parts.join("")}<text x="240" y="${BOTTOM + 34}" text-anchor="middle" class="side">persons per year of age</text></svg>`;
  return figure;
};
// The pyramid of rows by sex and age of one group of the Detailed DHC-A; none for other rows. estimatesOf: returns what
// gives the estimate of a row, if there are any.
const SIDES = { 1: [206, -1], 2: [274, 1] };
const pyramidOf = ({ columns }, rows, estimatesOf) => {
  const at = Object.fromEntries(columns.map(({ name, role }, place) => [["count", "estimate", "margin"].includes(role) ? role : name, place]));
  if (!["AGESTART", "AGEEND", "SEX", "count", "margin"].every((name) => name in at)) return [];
  const keys = columns.flatMap(({ filtered, name }, place) => (filtered && !["AGESTART", "AGEEND", "SEX"].includes(name) ? [place] : []));
  const cells = rows.filter((row) => row[at.AGESTART] !== "*").sort((a, b) => a[at.AGESTART] - b[at.AGESTART]);
  if (!cells.length || cells.some((row) => keys.some((key) => row[key] !== cells[0][key]))) return [];
  const ages = cells.filter((row) => row[at.SEX] === "1").map((row) => [Number(row[at.AGESTART]), Number(row[at.AGEEND])])
    .map(([first, last]) => [last >= 115 ? `${first} and over` : first === last ? `${first}` : `${first}–${last}`, first, last]);
  const estimates = estimatesOf();
  const sexes = Object.entries(SIDES).map(([sex, [zero, way]]) => {
    const own = cells.filter((row) => row[at.SEX] === sex);
    const apart = estimates && own.map((row) => estimates(row));
    return { name: columns[at.SEX].words[sex], zero, way, cells: own.map((row) => row[at.count]), margin: own[0]?.[at.margin], estimates: apart?.every((one) => one !== undefined) ? apart : null };
  });
  if (sexes.some((one) => one.cells.length !== ages.length)) return [];
  const more = sexes[0].estimates ? ", diamonds estimates" : "";
  return [pyramid(ages, sexes, "Population pyramid; the table below it has the numbers"),
    make("p", `Bars are age groups, as long as they have persons per year of age; the last is open and drawn to age 100. Whiskers are margins${more}.`, { className: "fine" })];
};

const start = ({ title, tables }) => {
  const address = (asked, more) => `#${new URLSearchParams({ ...Object.fromEntries(asked), ...more })}`;
  const link = (text, hash) => make("a", text, { href: hash });
  const home = () => [tableOf("Tables", [{ content: "table" }, { content: "rows", numeric: true }], tables.map((one) => [link(one.title, `#table=${one.name}`), number(one.rows.length)]))];
  const form = ({ columns }, asked) => {
    const fields = columns.filter(({ filtered, choices }) => filtered && choices.length !== 1).map(({ name, title: heading, choices }) => {
      const chosen = asked.get(`by_${name}`) ?? "";
      if (!choices.length) return within("label", [`${heading} `, make("input", "", { name: `by_${name}`, value: chosen, placeholder: "all" })]);
      const options = choices.map(([code, words]) => make("option", words || code, { value: code, selected: code === chosen }));
      return within("label", [`${heading} `, within("select", [make("option", "all", { value: "" }), ...options], { name: `by_${name}` })]);
    });
    const find = within("label", ["Find ", make("input", "", { name: "q", type: "search", value: asked.get("q") ?? "", placeholder: "name or code" })]);
    const made = within("form", [...fields, find, make("button", "Show")], { className: "filter" });
    made.addEventListener("submit", (event) => {
      event.preventDefault();
      const typed = [...new FormData(made)].filter(([, value]) => value);
      location.hash = new URLSearchParams([["table", asked.get("table")], ...typed]);
    });
    return made;
  };
  // What gives the estimate of a row of counts, by the table of estimates with its keys, if there is one.
  const estimatesOf = ({ name, columns }) => {
    const other = tables.find((one) => one.name === `estimates-${name}`);
    if (!other) return null;
    const key = (row) => columns.filter(({ filtered }) => filtered).map((column) => row[columns.indexOf(column)]).join("|");
    const value = other.columns.findIndex(({ role }) => role === "estimate");
    const found = new Map(other.rows.map((row) => [key(row), row[value]]));
    return (row) => found.get(key(row));
  };
  const rowsOf = (table, asked) => {
    const { name, reading, columns } = table;
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
    const named = columns.map(({ words }) => Object.keys(words).length > 0);
    const plain = rows.map((row) => row.flatMap((code, at) => (named[at] ? [code, columns[at].words[code] ?? ""] : [code])));
    return [make("p", reading, { className: "note" }), form(table, asked), ...pyramidOf(table, rows, () => estimatesOf(table)), tableOf(`${number(rows.length)} rows`, heads, shown),
      within("p", others), saved(name, columns.flatMap((column, at) => (named[at] ? [column.name, `${column.name}_NAME`] : [column.name])), plain)];
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
