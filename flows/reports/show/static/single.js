// The pages of a release in one file: DATA is unpacked, and the part behind # in the address names what is shown.
const unpack = async (text) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
};
const number = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",").replace("-", "−");
const make = (name, text = "", more = {}) => Object.assign(document.createElement(name), { textContent: text, ...more });
const link = (text, hash) => make("a", text, { href: `#${hash}` });
const main = document.getElementById("main");

const table = (caption, columns, rows) => {
  const whole = make("table");
  const head = make("tr");
  columns.forEach((name, at) => head.append(make("th", name, { scope: "col", className: at ? "n" : "" })));
  const body = make("tbody");
  for (const [first, ...others] of rows) {
    const row = make("tr");
    const heading = make("th", "", { scope: "row" });
    heading.append(first);
    row.append(heading, ...others.map((value) => make("td", value, { className: "n" })));
    body.append(row);
  }
  const thead = make("thead");
  thead.append(head);
  whole.append(make("caption", caption), thead, body);
  const wide = make("div", "", { className: "wide", tabIndex: 0, ariaLabel: caption, role: "region" });
  wide.append(whole);
  return wide;
};
// A table as a file of CSV, made in the browser; text that would be a formula gets an apostrophe, as in tasks/pages/csv_text.py.
const inert = (text) => (/^[=+\-@\t\r]/.test(text) && !/^(?:[-+0-9.,%() ]|to)+$/.test(text) ? `'${text}` : text);
const saved = (name, columns, rows) => {
  const cell = (value) => `"${inert(String(value)).replaceAll('"', '""')}"`;
  const text = [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n");
  const file = new Blob([`${text}\n`], { type: "text/csv" });
  const one = make("a", "This table as CSV", { className: "csv", download: `${name}.csv`, href: URL.createObjectURL(file) });
  const line = make("p");
  line.append(one);
  return line;
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

const start = (data) => {
  const { regions, iterations, margins, errors, shapes, groups, sides, tables } = data;
  const numbers = new Map(regions.map(([type, id], at) => [`${type}/${id}`, at]));
  const codes = new Map(iterations.map(([code], at) => [code, at]));
  const title = (at) => regions[at][2];
  const listed = (found) => found.sort((a, b) => b[1] - a[1]);
  const tableOf = (shape) => tables[shape];
  const line = (heading, hash, [, count, margin]) => {
    const [total, , , shape] = margins[margin];
    return [link(heading, hash), number(count), `± ${number(total)}`, tableOf(shape)];
  };
  const columns = (first) => [first, "count", "margin", "table"];
  const home = () => {
    const kinds = [...new Set(regions.map(([type]) => type))];
    const few = regions.map((_, at) => at).filter((at) => ["USA", "STATE", "PR-STATE", "COUNTY", "PR-COUNTY"].includes(regions[at][0]));
    const list = make("ul", "", { className: "choices" });
    list.append(...few.map((at) => { const item = make("li"); item.append(link(title(at), `region/${regions[at][0]}/${regions[at][1]}`)); return item; }));
    const total = groups.reduce((sum, own) => sum + own.length, 0);
    return [data.title, make("p", `${number(total)} published groups of ${number(iterations.length)} iterations in ${number(regions.length)} regions (${kinds.join(", ")}). Find a region, an iteration, or both, as in ${iterations[0][1]} ${title(few.at(-1) ?? 0)}.`), make("h2", "Begin with"), list];
  };
  const region = (key) => {
    const at = numbers.get(key);
    if (at === undefined) return missing(key);
    const own = listed([...groups[at]]);
    const rows = own.map((group) => line(iterations[group[0]][1], `group/${key}/${iterations[group[0]][0]}`, group));
    const plain = own.map(([one, count, margin]) => [...iterations[one].slice(0, 2), count, margins[margin][0], tableOf(margins[margin][3])]);
    return [title(at), make("p", `${key} ${regions[at][3]}`), table(`${number(own.length)} groups`, columns("iteration"), rows),
      saved(key.replace("/", "-"), ["ITERATION_CODE", "ITERATION_NAME", "COUNT", data.moe, "TABLE"], plain)];
  };
  const iteration = (code) => {
    const one = codes.get(code);
    if (one === undefined) return missing(code);
    const parts = [iterations[one][1], make("p", `${iterations[one][2]} iteration ${code}`)];
    const plain = [];
    for (const kind of new Set(regions.map(([type]) => type))) {
      const found = listed(groups.flatMap((own, at) => regions[at][0] === kind ? own.filter(([each]) => each === one).map((group) => [at, ...group.slice(1)]) : []));
      if (!found.length) continue;
      parts.push(table(`${kind}: ${number(found.length)} regions`, columns("region"), found.map((group) => line(title(group[0]), `group/${kind}/${regions[group[0]][1]}/${code}`, group))));
      plain.push(...found.map(([at, count, margin]) => [...regions[at].slice(0, 3), count, margins[margin][0], tableOf(margins[margin][3])]));
    }
    if (plain.length) parts.push(saved(`iteration-${code}`, ["REGION_TYPE", "REGION_ID", "REGION_NAME", "COUNT", data.moe, "TABLE"], plain));
    else parts.push(make("p", "No region of this file has a published count.", { className: "note" }));
    return parts;
  };
  const group = (key, code) => {
    const at = numbers.get(key);
    const one = codes.get(code);
    if (at === undefined || one === undefined) return missing(`${key}/${code}`);
    const heading = `${iterations[one][1]}, ${title(at)}`;
    const where = make("p");
    where.append(link(iterations[one][1], `iteration/${code}`), " · ", link(title(at), `region/${key}`));
    const found = groups[at].find(([each]) => each === one);
    if (!found) return [heading, where, make("p", "No count was published: the group was suppressed, or not tabulated. That does not mean a count of 0.", { className: "note" })];
    const [, count, margin, cells, more, error, apart] = found;
    const [total, ofSex, ofCell, shape] = margins[margin];
    const figure = make("p", "", { className: "figure" });
    figure.append(make("span", number(count), { className: "big" }), ` ± ${number(total)}`);
    const estimate = error === undefined ? [] : [make("p", `Estimate ${number(count + more)} ± ${number(errors[error][0])}. It combines all noisy answers that are informative about this group.`, { className: "note" })];
    if (!cells) return [heading, where, figure, make("p", "Published as a total alone."), ...estimate];
    const ages = shapes[shape], half = ages.length + 1;
    const ofSexAt = (place, row) => [cells[place], row ? ofCell : ofSex, ...(error === undefined ? [] : [cells[place] + apart[place], errors[error][place + 1]])];
    const rows = ["all ages", ...ages.map(([label]) => label)].map((label, row) => [label, ...ofSexAt(row, row), ...ofSexAt(half + row, row)]);
    const columns = (margin) => Object.keys(sides).flatMap((sex) => [sex, margin, ...(error === undefined ? [] : ["estimate", margin])]);
    const side = (from) => ({ cells: cells.slice(from + 1, from + half), margin: ofCell, estimates: error === undefined ? null : cells.slice(from + 1, from + half).map((own, row) => own + apart[from + 1 + row]) });
    const sexes = Object.entries(sides).map(([name, [zero, way]], at) => ({ name, zero, way, ...side(at * half) }));
    return [heading, where, figure, ...estimate, pyramid(ages, sexes, "Population pyramid; the table below it has the numbers"),
      make("p", `Bars are age groups, as long as they have persons per year of age; the last is open and drawn to age 100. Whiskers are margins${error === undefined ? "" : ", diamonds estimates"}.`, { className: "fine" }),
      table("Persons by sex and age", ["age", ...columns("margin")], rows.map(([label, ...cells]) => [label, ...cells.map((value, place) => (place % 2 ? `± ${number(value)}` : number(value)))])),
      saved(`${key}-${code}`.replace("/", "-"), ["AGE", ...columns(data.moe).map((name) => name.toUpperCase())], rows)];
  };
  const find = searchOf(data.index, data.named, data.small);
  const hashOf = (file) => file.replace(/\.html$/, "").replace(/^(region|iteration|group)-(?:(.+?)-)?(\d+)(?:-(\w+))?$/, (_, ...parts) => parts.slice(0, 4).filter(Boolean).join("/"));
  const missing = (what) => ["Not found", make("p", `${what} is not in this file.`, { className: "note" })];
  const search = (query) => {
    const [found, nearest] = find(query);
    const list = make("ul", "", { className: "choices" });
    list.append(...found.slice(0, 100).map(({ name, detail, file }) => {
      const item = make("li");
      item.append(link(name, hashOf(file)), make("span", ` ${detail}`, { className: "code" }));
      return item;
    }));
    const words = `${nearest ? `Nothing matches “${query}”. Nearest: “${nearest}”. ` : ""}${found.length} found${found.length > 100 ? ", the first 100" : ""}.`;
    return [`“${query}”`, make("p", words), list];
  };
  const show = () => {
    const parts = decodeURIComponent(location.hash.slice(1)).split("/");
    const [heading, ...content] = parts[0] === "region" ? region(parts.slice(1, 3).join("/"))
      : parts[0] === "iteration" ? iteration(parts[1])
      : parts[0] === "group" ? group(parts.slice(1, 3).join("/"), parts[3])
      : parts[0] === "find" ? search(parts.slice(1).join("/"))
      : home();
    main.replaceChildren(make("h1", heading), make("p", data.reading, { className: "reading" }), ...content);
    document.title = heading;
    window.scrollTo(0, 0);
  };
  document.getElementById("search").addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `find/${encodeURIComponent(document.getElementById("q").value)}`;
  });
  window.addEventListener("hashchange", show);
  show();
};
