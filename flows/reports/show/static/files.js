// A view as CSV: pages.py's tables once more.
import { csv } from "./words.js";

const GROUP = ["REGION_TYPE", "REGION_ID", "REGION_NAME", "ITERATION_CODE", "ITERATION_NAME", "STATUS", "COUNT", "MOE", "LOW", "HIGH", "TABLE", "WHY", "ESTIMATE", "ESTIMATE_MOE"];

export const csvOf = (view, shapes) => csv(table(view, shapes));

function table(view, shapes) {
  if (view.view === "overview") return overview(view, shapes);
  if (view.view === "region" || view.view === "iteration") return [GROUP, ...view.page.rows.map(groupRow)];
  if (view.view === "group") return group(view);
  if (view.view === "compare") {
    const rows = [...(view.total ? [view.total] : []), ...view.rows];
    return [["AGE", "SEX", "A", "B", "DIFFERENCE", "MOE"], ...rows.map((row) => [row.label, row.sex, row.a, row.b, row.difference, row.margin])];
  }
  return [["KIND", "CODE", "NAME", "WITHIN"],
    ...view.regions.map((one) => [one.kind, one.id, one.name, one.within]),
    ...view.iterations.map((one) => ["iteration", one.code, one.name, one.level]),
    ...view.groups.map(([key, name]) => ["group", key, name, ""])];
}

function overview(view, shapes) {
  const upper = shapes.map((shape) => shape.toUpperCase());
  return [
    ["LEVEL", "REGIONS", "ITERATIONS", "GROUPS", "PUBLISHED", "SUPPRESSED_UP_TO", ...upper, ...upper.map((shape) => `MOE_${shape}`)],
    ...view.levels.map((row) => [row.slug, row.regions, row.iterations, row.groups, row.published, row.suppressed_up_to,
      ...shapes.map((shape) => row.by_shape[shape]), ...shapes.map((shape) => row.margins[shape])]),
  ];
}

function groupRow(told) {
  return [...told.region.key.split("/"), told.region.name, told.iteration.code, told.iteration.name,
    told.status, told.count, told.margin, told.low, told.high, told.shape, told.why, told.estimate, told.estimate_margin];
}

function group(view) {
  const total = (of, told) => [of, ...groupRow(told).slice(0, 5), "all ages", "both", told.status, told.count, told.margin, told.estimate, told.estimate_margin];
  const rows = [total("group", view.group)];
  if (view.pyramid) {
    for (const age of [{ ...view.pyramid, label: "all ages" }, ...view.pyramid.ages]) {
      for (const sex of ["male", "female"]) {
        const counts = ["", "_margin", "_estimate", "_estimate_margin"].map((of) => age[sex + of]);
        rows.push([...rows[0].slice(0, 6), age.label, sex, view.group.status, ...counts]);
      }
    }
  }
  rows.push(...view.parents.map((told) => total("within", told)));
  rows.push(...view.children.flatMap((inside) => inside.rows.map((told) => total(inside.kinds, told))));
  rows.push(...(view.siblings?.rows ?? []).map((told) => total("beside", told)));
  return [["OF", ...GROUP.slice(0, 5), "AGE", "SEX", "STATUS", "COUNT", "MOE", "ESTIMATE", "ESTIMATE_MOE"], ...rows];
}
