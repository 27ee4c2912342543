// The page of a static copy: the address names a view, views.js makes it, the templates of `das show` render it.
import { comma, NotThere } from "./words.js";

/* global nunjucks */

const TEMPLATES = "static/templates.json";

function templates(texts) {
  const loader = { getSource: (name) => ({ src: texts[name], path: name, noCache: false }) };
  const made = new nunjucks.Environment(loader, { autoescape: true, trimBlocks: true });
  made.addFilter("number", (value) => number(value).replaceAll("-", "−"));
  made.addFilter("decimal", (value) => (
    Math.abs(value) >= 99.95 ? comma(value) : String(Number(value.toPrecision(3)))).replaceAll("-", "−"));
  made.addFilter("percent", (value) => (value < 0.0995 ? `${(100 * value).toFixed(1)}%` : `${comma(100 * value)}%`));
  return made;
}

// With decimals where it has them.
function number(value) {
  if (Number.isInteger(value)) return comma(value);
  return Number(value.toPrecision(12)).toLocaleString("en-US", { maximumFractionDigits: 11 });
}

// As Python's urlencode writes it, so that both pages have the same addresses.
function addressOf(asked) {
  const kept = Object.entries({ view: "overview", ...asked }).filter(([name, value]) => value && !["page", "format"].includes(name));
  return "?" + kept.map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%2F", "/").replaceAll("%20", "+")}`).join("&");
}

async function show() {
  const asked = Object.fromEntries(new URLSearchParams(location.search));
  const [told, texts] = await Promise.all(["data/release.json", TEMPLATES].map((name) => fetch(name).then((answer) => answer.json())));
  const kind = await import(`./${told.kind}.js`);
  const release = await kind.load("data", told);
  let about = release.told.about, view;
  try {
    view = await kind.viewOf(release, asked);
  } catch (error) {
    if (!(error instanceof NotThere)) throw error;
    const message = `${error.message[0].toUpperCase()}${error.message.slice(1)}.`;
    view = { view: "message", title: "Not found", reading: "", message };
    about = { ...about, csv: false };
  }
  document.title = view.title;
  document.body.innerHTML = templates(texts).render("body.html", { view, about, address: addressOf(asked) });
  document.querySelector("a.csv")?.addEventListener("click", (event) => save(event, kind, release, asked));
  document.body.dataset.shown = "yes";
}

async function save(event, kind, release, asked) {
  event.preventDefault();
  const view = await kind.viewOf(release, { ...asked, format: "csv" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([kind.csvOf(release, view)], { type: "text/csv" }));
  link.download = `${(asked.view ?? "overview").replaceAll(/[^\w-]/g, "-")}.csv`;
  link.click();
}

show().catch((error) => {
  document.body.textContent = `This copy cannot be shown: ${error.message}`;
  throw error;
});
