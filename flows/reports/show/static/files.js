// A view as CSV: pages.py's tables once more.
import { csv } from "./words.js";

const GROUP = ["REGION_TYPE", "REGION_ID", "REGION_NAME", "ITERATION_CODE", "ITERATION_NAME", "STATUS", "COUNT", "MOE", "LOW", "HIGH", "TABLE", "WHY"];

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
    ...view.iterations.map((one) => ["iteration", one.code, one.name, one.level])];
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
    told.status, told.count, told.margin, told.low, told.high, told.shape, told.why];
}

function group(view) {
  const row = (of, told, age, sex, count, margin) => [of, ...groupRow(told).slice(0, 5), age, sex, told.status, count, margin];
  const own = (age, sex, count, margin) => row("group", view.group, age, sex, count, margin);
  const rows = [own("all ages", "both", view.group.count, view.group.margin)];
  if (view.estimate) rows.push(row("estimate", view.group, "all ages", "both", view.estimate.estimate, view.estimate.margin));
  if (view.pyramid) {
    const ages = [{ ...view.pyramid, label: "all ages" }, ...view.pyramid.ages];
    for (const age of ages) rows.push(own(age.label, "male", age.male, age.male_margin), own(age.label, "female", age.female, age.female_margin));
  }
  const around = [
    ...view.parents.map((told) => ["within", told]),
    ...view.children.flatMap((inside) => inside.rows.map((told) => [inside.kinds, told])),
    ...(view.siblings?.rows ?? []).map((told) => ["beside", told]),
  ];
  rows.push(...around.map(([of, told]) => row(of, told, "all ages", "both", told.count, told.margin)));
  return [["OF", ...GROUP.slice(0, 5), "AGE", "SEX", "STATUS", "COUNT", "MOE"], ...rows];
}
