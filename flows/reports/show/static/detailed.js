// A Detailed DHC-A release.
import { csvOf as table } from "./files.js";

export { load } from "./data.js";
export { viewOf } from "./views.js";
export const csvOf = (release, view) => table(view, release.words.shapes);
