"""What the tables of a TopDown release are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from privacy.tables.histogram import Axis
from spine.redistricting import HHGQ, PERSON_AXES
from tasks.geography.public_regions import NAMES_TABLE, POINTS_TABLE
from tasks.releases.description import Column, Description, Reference, Role, Table, Tidy, integer, number
from tasks.releases.pages.words import level_title
from tasks.releases.received import PART, NotOfRelease
from tasks.releases.tidy import with_tidy
from tasks.top_down.areas import FOLDERS, TABULATED
from tasks.top_down.input.public_input import QUARTERS
from tasks.top_down.release.design_file import BLOCKS_FOLDER, MEASUREMENTS, SETTINGS_PATH
from tasks.top_down.release.nmf_layout import data_set_name
from tasks.top_down.run_plan import SCHEMAS, US, counts_of

REGION_TYPES = {  # by level of the tabulation or family of entities
    "State": "STATE",
    "County": "COUNTY",
    "Tract": "TRACT",
    "place": "PLACE",
    "mcd": "COUSUB",
    "aian": "AIANNH",
}
CELLS_FILE, COUNTS_FILE = "cells/{product}.csv", "cells/{product}-counts.csv"
UNITS = {"persons": "persons", "units": "housing units"}
BLOCK = (
    Column("SCHEMA_TYPE_CODE", "code", "what the rows are", {"MPD": "persons", "MUD": "units"}),
    Column("SCHEMA_BUILD_ID", "text", "the program that made the file"),
    Column("TABBLKST", "code", "state, 2 digits", region="STATE"),
    Column("TABBLKCOU", "code", "county, 3 digits"),
    Column("TABTRACTCE", "code", "tract, 6 digits"),
    Column("TABBLKGRPCE", "code", "block group, 1 digit"),
    Column("TABBLK", "code", "block, 4 digits"),
)
PERSON = (
    *BLOCK,
    Column("EPNUM", "code", "999999999: the Bureau's field for a person's number, not used"),
    Column("RTYPE", "code", "where the person lives", {"3": "household", "5": "group quarters"}),
)
EITHER = "persons or housing units"
RECORDS = integer("COUNT", "records", "how many records of the block are so", role="count")
DECLARED = tuple(
    integer(name, unit, f"declared: {what}, without noise", role="declared")
    for name, unit, what in (
        (QUARTERS[0], "housing units", "the housing units"),
        *((name, "facilities", HHGQ.labels[at]) for at, name in enumerate(QUARTERS[1:], 1)),
    )
)
GEOUNIT = Column(
    "geounit", "code", "the geounit by its geocode on the spine, or by its public code", title="Geounit", frame="code"
)
CELL = integer("cell", "code", "the cell of the histogram")
COUNT = integer("count", EITHER, "the released count; cells of 0 have no row", role="count")
STATISTIC = Column("count", "text", "what is counted", title="Count of", frame="statistic", overlap=True)
ESTIMATED: tuple[tuple[Role, str, str], ...] = (  # columns of an estimated count: role, name and meaning
    ("margin", "its margin of error at 95%; empty where it would not be the release's", "released"),
    ("estimate", "the unbiased estimate; not rounded, and may be negative", "released"),
    ("standard error", "the standard error of the estimate", "estimate"),
)
MARGINS = (
    integer("released", EITHER, "the released count", role="count"),
    *(number(role.replace(" ", "_"), EITHER, meaning, role=role, of=of) for role, meaning, of in ESTIMATED),
)


def axis_column(axis: Axis) -> Column:
    """Return the column of records that an axis is read from."""
    return Column(axis.column, "code", axis.words, dict(zip(axis.codes, axis.labels, strict=True)))


def _tables(product: str, *, pl94: bool) -> list[Table]:
    """Return the tables of a product: by area and by level of the spine, and its cells; pl94: as `counts_of`."""
    kind, cell = f"{{product={product}}}", ("cell",)
    counts = (*SCHEMAS[product].counts, *counts_of(product, pl94))
    statistic = replace(STATISTIC, codes={count.name: count.words for count in counts})
    margins = (statistic, *(replace(column, unit=UNITS[product]) for column in MARGINS))
    histogram = Table(
        f"Histograms of {product}: {{level}}",
        (GEOUNIT, CELL, replace(COUNT, unit=UNITS[product])),
        split="state",
        key=("geounit", "cell"),
        references=(Reference(cell, f"cells-{product}", cell),),
        sums=f"cells-{product}-counts",
    )
    estimate = Table(
        f"Margins and estimates of {product}: {{level}}",
        (GEOUNIT, *margins),
        split="state",
        key=("geounit", "count"),
        dependent=True,
    )
    named = replace(STATISTIC, name=STATISTIC.frame), replace(COUNT, unit=UNITS[product])
    tidy = Tidy(
        f"{product}/{{level}}",
        product,
        UNITS[product],
        by="the count",
        cells=(STATISTIC.frame,),
        rows={(count.name,): count.words for count in counts},
        parts=("state",),
        columns=(*named, *(replace(column, unit=UNITS[product], optional=True) for column in MARGINS[1:])),
        key=("geounit", STATISTIC.frame),
    )

    def tidy_of(level: str, geounit: Column) -> tuple[Tidy]:
        return (replace(tidy, path=f"{product}/{{level={level}}}", columns=(geounit, *tidy.columns)),)

    tables = []
    for folder, level in (path.split("/") for path in FOLDERS.values()):
        geounit = replace(GEOUNIT, region=REGION_TYPES[level], names="name") if level in REGION_TYPES else GEOUNIT
        path = f"{kind}/{folder}/{{level={level}}}/{{state}}.parquet"
        columns = (geounit, *histogram.columns[1:])
        tables += [
            replace(
                histogram,
                parquet=f"histograms/{path}",
                columns=columns,
                key=() if level == "aian" else histogram.key,  # an area in several states has rows in each
                counts=True,
                tidy=tidy_of(level, geounit),
            ),
            replace(
                estimate,
                parquet=f"margins/{path}",
                columns=(geounit, *margins),
                key=() if level == "aian" else estimate.key,
                of=f"histograms-{product}-{folder}-{level}",
            ),
        ]
    state = replace(GEOUNIT, region="STATE", digits=2, names="name")

    def on_spine(table: Table, **changes: Any) -> Table:
        return replace(table, title=f"{table.title}, on the spine", **changes)

    return [
        *tables,
        on_spine(
            histogram,
            parquet=f"histograms/{kind}/{{level=State}}/{{state}}.parquet",
            columns=(state, *histogram.columns[1:]),
            counts=not pl94,
            tidy=() if pl94 else tidy_of("State", state),
        ),
        on_spine(histogram, parquet=f"histograms/{kind}/{{level={US}}}/{{state}}.parquet", tidy=tidy_of(US, GEOUNIT)),
        on_spine(histogram, parquet=f"histograms/{kind}/{{level}}/{{state}}.parquet"),
        on_spine(estimate, parquet=f"margins/{kind}/{{level}}/{{state}}.parquet"),
        Table(
            f"What is declared, of {product}: {{level}}",
            (GEOUNIT, *DECLARED),
            parquet=f"invariants/{kind}/{{level}}/{{state}}.parquet",
            split="state",
            key=("geounit",),
        ),
        Table(
            f"Cells of the histograms of {product}",
            (CELL, *map(axis_column, SCHEMAS[product].axes)),
            text=CELLS_FILE.format(product=product),
            key=cell,
        ),
        Table(
            f"Counts of {product}: the cells that each sums",
            (statistic, CELL),
            text=COUNTS_FILE.format(product=product),
            key=("count", "cell"),
            references=(Reference(cell, f"cells-{product}", cell),),
        ),
    ]


VARIANCE = number(
    "variance", "persons or units, squared", "the variance of the noise in one answer", role="variance", of="value"
)
# An answer of a geounit, behind what names it. The columns of a law are exact.
MEASURED = (
    Column("query", "text", "the query group"),
    Column("value", "persons or units", "its noisy answers: axes as in the cells, the last varies fastest", type="any"),
    Column("share", "fraction", "the share of the budget that the geounit has"),
    Column("variance_numerator", "number", "with the denominator, the exact parameter of the noise"),
    Column("variance_denominator", "number", "sigma squared of the discrete Gaussian, or the geometric scale"),
    VARIANCE,
)

MICRODATA = (
    Table(
        "Microdata of persons, equal ones in a row: sum COUNT",
        (*PERSON, *map(axis_column, PERSON_AXES), RECORDS),
        parquet="mdf/{state}_{product=persons}.parquet",
        split="state",
        key=("*",),
    ),
    Table(
        "Microdata of housing units and group quarters, equal ones in a row: sum COUNT",
        (
            *BLOCK,
            Column("RTYPE", "code", "what it is", {"2": "housing unit", "4": "group quarters"}),
            Column("HH_STATUS", "code", "its status", {"0": "group quarters", "1": "occupied", "2": "vacant"}),
            RECORDS,
        ),
        parquet="mdf/{state}_{product=units}.parquet",
        split="state",
        key=("*",),
    ),
)
SCHOOL_DISTRICT = "unified, secondary and elementary school district together, all nines for none; where they are known"
PRIMITIVE = "the primitive of the Estimates and Projections: state, county, subdivision, place; where it is known"
OTHER_TABLES = (
    *MICRODATA,
    *(
        replace(
            table,
            title=f"{table.title.partition(',')[0]}, a row a record",
            columns=table.columns[:-1],
            parquet="",
            text=table.parquet.replace(".parquet", ".txt"),
            key=(),
        )
        for table in MICRODATA
    ),
    Table(
        "Blocks, as they were measured",
        (
            integer("geocode", "code", "the block: its 15 digits, with the block group before the block"),
            integer("place", "code", "place, 99999 for none"),
            integer("cousub", "code", "county subdivision"),
            integer("aiannh", "code", "AIANNH area, 9999 for none"),
            integer("school_district", "code", SCHOOL_DISTRICT, optional=True),
            integer("prim", "code", PRIMITIVE, optional=True),
            integer("gq", "bits", "which of the seven types of group quarters it has, the first type leftmost"),
            Column("universe", "yes or no", "whether it has living quarters", type="boolean"),
            *DECLARED,
        ),
        parquet="measurements/blocks/{state}.parquet",
        split="state",
        key=("geocode",),
    ),
    Table(
        "Blocks of the spine that was read, in its order: {product}",
        (
            integer("block", "number", "the row of the block in the table of blocks"),
            Column("geocode", "code", "the block's geocode on the spine"),
        ),
        parquet="measurements/geounits/{product}/{state}.parquet",
        split="state",
    ),
    Table(
        "Noisy measurements of {product}: {level}",
        (GEOUNIT, *MEASURED),
        parquet="measurements/{product}/{level}/{state}.parquet",
        split="state",
        key=("geounit", "query"),
    ),
    Table(
        "{kind} of {dataset} in the Census Bureau's layout: {level}",
        (
            Column("geocode", "code", "the geounit's geocode, as the Census Bureau's files write it"),
            Column("query_name", "text", "the query, with _dpq for a noisy answer and _con for a constraint"),
            Column("sign", "text", "of a constraint: how value and count compare", optional=True),
            *(
                Column(axis.name, "text", f"{axis.words}: the values that an answer sums", optional=True)
                for schema in SCHEMAS.values()
                for axis in schema.axes
            ),
            Column("query_shape", "number", "the shape of the answers", type="any"),
            Column("value", "persons or units", "the answers in C order of the shape", type="any"),
            replace(VARIANCE, optional=True),
            number("plb", "rho", "the budget of the query in the geounit", optional=True),
        ),
        parquet="nmf/{dataset}/{level}.parquet/{kind}/{part*}.parquet",
        split="part",
        key=("geocode", "query_name"),
    ),
    NAMES_TABLE,
    POINTS_TABLE,
)


def tables(*, pl94: bool = False) -> tuple[Table, ...]:
    """Return the tables of a release; pl94: with the tables P1 to P5, and states, which may be two parts."""
    of_products = (table for product in SCHEMAS for table in _tables(product, pl94=pl94))
    return *of_products, *OTHER_TABLES


def description(manifest: Mapping[str, Any]) -> Description:
    """Return the description of a release. No law is known of the error of a count without a margin."""
    products, jurisdiction = manifest["products"], manifest["region"].lower()
    levels = (US, *(level for entry in products.values() for level in entry.get("geounits", ())))
    in_files = products if manifest["options"].get("nmf") else ()
    names = {
        "level": {
            level: level_title(level, several=level != US) for level in (*levels, *TABULATED.values(), *REGION_TYPES)
        },
        "state": {state: state for state in (US, *manifest["states"])},
        "product": {product: product for product in products},
        "dataset": {data_set_name(jurisdiction, product): product for product in in_files},
        "kind": {"DPQuery": "Noisy measurements", "Constraint": "Constraints"},
    }
    margins = [entry.get("margins", {}).get("mean_standard_error", ()) for entry in products.values()]
    words = [*names["level"], *names["state"], *names["product"], *(each["of"] for entry in margins for each in entry)]
    if strange := [word for word in words if not PART.fullmatch(word)]:  # the manifest is untrusted
        raise NotOfRelease(f"{ascii(strange[0])[:100]} is the name of no state, level or family")
    return with_tidy(
        Description(
            tables(pl94=bool(manifest["options"].get("pl94"))),
            names=names,
            others=("report.html", SETTINGS_PATH),
            required=tuple(_required(manifest)),
        )
    )


def _required(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files that a release of these levels, states and options has."""
    measured = has_measurements(manifest)
    yield "report.html"
    if measured:
        yield SETTINGS_PATH
        yield from (f"{MEASUREMENTS}/{BLOCKS_FOLDER}/{state}.parquet" for state in manifest["states"])
    for product in manifest["products"]:
        yield from (file.format(product=product) for file in (CELLS_FILE, COUNTS_FILE))
        for level, state in spine_files(manifest, product):
            for folder in ("histograms", "invariants", *([MEASUREMENTS] if measured else [])):
                yield f"{folder}/{product}/{level}/{state}.parquet"
        for state in manifest["states"]:
            yield from (f"histograms/{product}/{FOLDERS[family]}/{state}.parquet" for family in TABULATED)
            yield f"mdf/{state}_{product}.parquet"
            if manifest["options"]["microdata"] == "text":
                yield f"mdf/{state}_{product}.txt"


def spine_files(manifest: Mapping[str, Any], product: str) -> Iterator[tuple[str, str]]:
    """Yield level and state of every file of the spine's geounits, top first; for the US level US twice."""
    for level in manifest["products"][product]["geounits"]:
        for state in [US] if level == US else manifest["states"]:
            yield level, state


def has_measurements(manifest: Mapping[str, Any]) -> bool:
    """Return whether the noisy measurements are released."""
    return bool(manifest["options"]["measurements"]) and bool(manifest["spent"])


def states_of_nation(manifest: Mapping[str, Any]) -> list[str]:
    """Return the FIPS codes of the states in a release's counts of the nation; none where it has no such counts."""
    return list(map(str, manifest["states"])) if manifest["spine"]["us_level"] else []
