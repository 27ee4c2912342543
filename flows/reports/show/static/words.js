// What the views of every kind of release share.

export class NotThere extends Error {}

export const comma = (value) => Math.round(value).toLocaleString("en-US");
export const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// The page that is asked for; 0, for all rows, where a file of them is.
export function pageAsked(asked) {
  if (asked.format === "csv") return 0;
  return /^\d{1,7}$/.test(asked.page ?? "1") ? Number(asked.page ?? 1) : 1;
}

export function pageOf(total, asked, each) {
  const pages = Math.max(1, Math.ceil(total / each)), number = Math.min(Math.max(1, asked), pages);
  return { number, pages, from: asked ? (number - 1) * each : 0, to: asked ? number * each : total };
}

// A number as Python writes a float.
export const float = (value) => (typeof value === "number" && Number.isInteger(value) ? `${value}.0` : value);

export function csv(rows) { return rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n"; }

function quoted(value) {
  const text = String(value ?? "");
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
