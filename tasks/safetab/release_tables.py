"""Describe what the tables of all SafeTab releases share: columns, laws, and the regions and iterations of a run.

The tables of regions and iterations list every group of a run, so a reader knows that a group without a row was
suppressed. They come from public files alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from privacy.noise.exact import parse_exact
from privacy.noise.laws import law
from privacy.tables.published import Published
from spine.settings import Jurisdiction
from tasks.geography.public_regions import NAMES_TABLE, POINTS_TABLE, REGION_COLUMNS, write_regions
from tasks.geography.region_files import KEY
from tasks.geography.regions import REGION_TYPES, Region
from tasks.releases.datapackage import slug
from tasks.releases.description import Column, Description, Noise, Reference, Table, count_and_margin
from tasks.releases.published import laws_by_margin, row_column, tidy_as
from tasks.releases.tidy import with_tidy
from tasks.safetab.iterations import ITERATION_KINDS, Iterations
from tasks.safetab.levels import ALL_LEVELS, ITERATION_LEVELS, Level
from tasks.safetab.run import SafeTabRun

FLAGS = {"True": "yes", "False": "no"}
WHOM = ("all of whose races are in it", "with at least one race in it", "by Hispanic or Latino ethnicity")
ITERATION = Column(
    "ITERATION_CODE",
    "code",
    "the characteristic iteration: 4 digits",
    title="Iteration",
    frame="iteration_code",
    overlap=True,
)
GROUP = (*KEY, ITERATION.name)
OF_GROUP = (
    Reference(KEY, "tabulated-regions", KEY),
    Reference((ITERATION.name,), "tabulated-iterations", (ITERATION.name,)),
)
REGIONS = Table("Regions of the run", REGION_COLUMNS, text="tabulated/regions.csv", key=KEY)
ITERATIONS = Table(
    "Iterations of the run, and where they are tabulated",
    (
        replace(ITERATION, overlap=False),
        Column("ITERATION_NAME", "text", "its name", role="name", frame="iteration"),
        Column("LEVEL", "code", "the level of the iteration", {"1": "Regional", "2": "Detailed"}),
        Column("NATION_STATE", "yes or no", "whether nation and state tabulate it", FLAGS, type="boolean"),
        Column("SUB_STATE", "yes or no", "whether the levels below the state tabulate it", FLAGS, type="boolean"),
        Column("TOTAL_ONLY", "yes or no", "whether nation and state give only its total", FLAGS, type="boolean"),
    ),
    text="tabulated/iterations.csv",
    key=(ITERATION.name,),
)
HIERARCHY = Table(
    "Kinds of iterations, and the Regional ones above Detailed ones",
    (
        replace(ITERATION, overlap=False),
        Column("KIND", "code", "whom it counts"),
        Column("REGIONAL_CODE", "code", "the Regional iteration of its kind that has all of its codes, if one has"),
    ),
    text="tabulated/hierarchy.csv",
    key=(ITERATION.name,),
    references=OF_GROUP[1:],
)


def public_tables(counted: str) -> tuple[Table, ...]:
    """Return the tables of regions and iterations, for releases that count persons or householders."""
    kinds = {kind: f"{counted} {whom}" for kind, whom in zip(ITERATION_KINDS, WHOM, strict=True)}
    code, kind, above = HIERARCHY.columns
    hierarchy = replace(HIERARCHY, columns=(code, replace(kind, codes=kinds), above))
    located = (replace(table, references=OF_GROUP[:1]) for table in (NAMES_TABLE, POINTS_TABLE))
    return REGIONS, ITERATIONS, hierarchy, *located


def write_tabulated(run: SafeTabRun, jurisdiction: Jurisdiction, out: Path) -> None:
    """Write the regions, their names and the iterations of a run into OUT, pipe-delimited and sorted."""
    ids = run.geography.region_ids
    regions = {Region(name, region_id): None for name in REGION_TYPES[jurisdiction] for region_id in ids[name]}
    write_regions(run, out, regions.__contains__, run.parameters.configuration.states(jurisdiction))
    iterations = run.parameters.iterations
    above = ((code, *kind_and_regional) for code, kind_and_regional in sorted(hierarchy(iterations).items()))
    of_regions = ((region.type, region.id) for region in regions)
    (out / "tabulated").mkdir(parents=True, exist_ok=True)
    for table, rows in ((REGIONS, of_regions), (ITERATIONS, _iterations(iterations)), (HIERARCHY, above)):
        header = [column.name for column in table.columns]
        (out / table.text).write_text("".join("|".join(map(str, row)) + "\n" for row in (header, *rows)), "utf-8")


def _iterations(iterations: Iterations) -> Iterable[Sequence[object]]:
    nation, below = iterations.nation_state, iterations.sub_state
    total_only = {code for code, only in zip(nation.codes, nation.total_only, strict=True) if only}
    level = {
        granularity.codes[number]: level
        for granularity in (nation, below)
        for level in ITERATION_LEVELS
        for number in granularity.of_level(level)
    }
    for code in sorted(level):
        yield code, iterations.names[code], level[code], code in nation.codes, code in below.codes, code in total_only


def hierarchy(iterations: Iterations) -> dict[str, tuple[str, str]]:
    """Return the kind of each iteration, and for a Detailed one the Regional iteration with all of its codes, or ""."""
    found: dict[str, tuple[str, str]] = {}
    for granularity in (iterations.nation_state, iterations.sub_state):
        for kind in ITERATION_KINDS:
            regional, detailed = (granularity.maps[kind, level] for level in ITERATION_LEVELS)
            found |= {granularity.codes[number]: (kind, "") for number in set(regional[regional >= 0].tolist())}
            for number in set(detailed[detailed >= 0].tolist()):
                above = set(regional[detailed == number].tolist())
                whole = granularity.codes[above.pop()] if len(above) == 1 and min(above) >= 0 else ""
                found[granularity.codes[number]] = kind, whole
    return found


def count_table(name: str, forms: Collection[Published], columns: Sequence[Column] = ()) -> Table:
    """Describe a table of counts: NAME/LEVEL.csv, and Parquet with margins.

    forms: the rows of a group, by its detail. columns: the keys of rows, if a group has several.
    """
    form = next(iter(forms))
    cells = [row_column(form)] if len(form.columns) == 1 else [each for each in columns if each.name in form.columns]
    return Table(
        f"{form.title}: {{level}}",
        (
            *REGION_COLUMNS,
            ITERATION,
            *cells,
            *count_and_margin(
                form.unit,
                "the published count, with noise",
                "the margin of error at 95% of the noise in the count, over all runs",
            ),
        ),
        text=f"{name}/{{level}}.csv",
        parquet=f"parquet/{name}/{{level}}.parquet",
        key=(*GROUP, *(column.name for column in cells)),
        references=OF_GROUP,
        counts=True,
        tidy=tidy_as(f"{name}/{{level}}", *forms),
    )


def estimates_of(table: Table) -> Table:
    """Return the table of the estimates of a table's counts."""
    *cells, count, margin = table.columns
    meaning = "the unbiased estimate from all noisy answers about the group, rounded"
    estimate = replace(count, name="ESTIMATE", meaning=meaning, role="estimate", frame="estimate")
    meaning = "the margin of error at 95% of the estimate"
    margin = replace(margin, meaning=meaning, of="ESTIMATE", frame="estimate_margin", in_text=True)
    return replace(
        table,
        title=table.title.replace(": ", ", estimates: "),
        columns=(*cells, estimate, margin),
        text=f"estimates/{table.text}",
        parquet=table.parquet.replace("/", "/estimates/", 1),
        counts=False,
        of=table.text.rpartition(".")[0],
        dependent=True,
        tidy=tuple(replace(each, path=f"estimates/{each.path}") for each in table.tidy),
    )


def describe(
    manifest: Mapping[str, Any],
    forms: Mapping[str, Mapping[int, Published]],
    counted: str,
    columns: Sequence[Column] = (),
    others: Sequence[str] = (),
    required: Sequence[str] = (),
) -> Description:
    """Describe a release: its tables of counts, the laws of their rows, and their estimates.

    forms: by table name, the form of each detail. counted: what the iterations count. columns: as in `count_table`.
    others: patterns of further files. required: files of counts.
    """
    levels = [level for level in ALL_LEVELS if str(level) in manifest["levels"]]
    of_table = {slug(f"{name}/{level.slug}"): (level, forms[name].values()) for name in forms for level in levels}

    def noise(name: str) -> list[Noise]:
        return laws(manifest, *of_table[name.removesuffix("-text")]) if manifest["spent"] else []

    dependent = not manifest["configuration"]["allow_negative_counts"]
    counts = [replace(count_table(name, each.values(), columns), dependent=dependent) for name, each in forms.items()]
    names = {"level": {level.slug: level.name for level in levels}}
    required = ["report.html", *(table.text for table in (REGIONS, ITERATIONS, HIERARCHY)), *required]
    tabulated = public_tables(counted)
    tables = (*counts, *map(estimates_of, counts), *tabulated)
    return with_tidy(Description(tables, noise, names, ("report.html", *others), tuple(required)))


def laws(manifest: Mapping[str, Any], level: Level, forms: Iterable[Published]) -> list[Noise]:
    """Return the laws of a level's counts by margin; where two laws share a margin, that of the larger variance.

    A coterminous region may have the count of another level's region.
    """
    levels, definition = manifest["levels"], manifest["spent"]["definition"]
    donors = [name for name in levels if name.endswith(f" {level.iteration_level})") and manifest["coterminous_sets"]]
    return laws_by_margin(
        (law(definition, parse_exact(levels[name]["queries"][query]["budget"]), levels[name]["stability"]), cells)
        for name in dict.fromkeys([str(level), *donors])
        for query, cells in dict.fromkeys((each.measured, cells) for each in forms for cells in each.draws.tolist())
        if query in levels[name]["queries"]
    )
