"""The systems that the suite is for: how to make the smallest input of each, its command, and what it cannot do."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import declarations
import dhca_inputs
import dhcb_inputs
import top_down_inputs
from s_dhc_households import configuration, country, random_units, write_configuration

from privacy.accounting.composition import UnitOfPrivacy
from privacy.noise.laws import Definition
from tasks.records.marks import MARK_FILE

CANARY = "9Q7Z"  # a value that no file may hold, and that nobody but the curator may see


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """What the suite needs to know of a system.

    name: of its record. write: writes its smallest input, not marked, into a folder.
    words: the input as a person types it after each of its commands; options: more of `run`; exact: more of
    `accuracy`. {home} is the folder. other: an option with which a run would release something else.
    out: the folder of OUT with the release. definition, unit: of an account that can pay; total: for one run alone.
    add: adds or changes a record of the input, so that the two are neighbours. fault: puts CANARY into a record.
    records: its files of records. drawn: the stage that draws the noise.
    estimated: the tables, by name, of which not only counts but rows or words follow the noisy counts.
    axes: where laws do not say how many cells a count sums, the key columns of the table of cells.
    cannot: what it cannot do, and why. not_provable: the parts of a release that none of its files shows.
    """

    name: str
    write: Callable[[Path], None]
    words: str
    options: str = ""
    exact: str = "{home}/errors"
    other: str = ""
    out: str
    definition: Definition = "zcdp"
    unit: UnitOfPrivacy = "person"
    total: str
    add: Callable[[Path], None]
    fault: Callable[[Path], None]
    records: tuple[str, ...]
    drawn: str
    estimated: tuple[str, ...] = ()
    axes: int = 0
    cannot: Mapping[str, str] = field(default_factory=dict)
    not_provable: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name


def last_line(path: str, change: Callable[[str], list[str]]) -> Callable[[Path], None]:
    """Return what replaces the last line of a file of the input by the lines that `change` makes of it."""

    def edit(home: Path) -> None:
        *lines, last = (home / path).read_text().splitlines()
        (home / path).write_text("\n".join([*lines, *change(last), ""]))

    return edit


def twice(path: str) -> Callable[[Path], None]:
    """Return what has the last record of a file twice."""
    return last_line(path, lambda line: [line, line])


def faulty(path: str, delimiter: str, column: str) -> Callable[[Path], None]:
    """Return what puts CANARY into a column of the last record of a file."""

    def edit(home: Path) -> None:
        with (home / path).open() as file:
            at = next(csv.reader(file, delimiter=delimiter)).index(column)
        last_line(path, lambda line: [with_field(line.split(delimiter), at)])(home)

    def with_field(fields: list[str], at: int) -> str:
        return delimiter.join([*fields[:at], CANARY, *fields[at + 1 :]])

    return edit


OF_EVERY = {"run", "journal", "versions.*", "code"}  # only the ledger or a signature shows them
OF_EVERY |= {"report.html: words"}
PUBLIC = {"names.csv*", "points.csv*"}
SAFETAB = {*OF_EVERY, *PUBLIC, "geography.blocks", "geography.GRF-C", "parameter_files.*", "tabulated/hierarchy.csv*"}
SAFETAB |= {
    "levels.*.stability",
    *(f"configuration.{name}" for name in ("max_race_codes", "reader", "run_us", "run_pr")),
}


def detailed_dhca(home: Path) -> None:
    """Two states, with the levels of the nation and of states by Regional groups."""
    made = dhca_inputs.Inputs(persons=dhca_inputs.people(400))
    made.config |= dict.fromkeys(dhca_inputs.BUDGETS[3:], 0)
    made.write(home)


def detailed_dhcb(home: Path) -> None:
    """Two states, with the levels of the nation and of counties by Regional groups."""
    made = dhcb_inputs.HouseholdInputs()
    kept = {f"privacy_budget_h_{table}_level_1_{region}" for table in ("t3", "t4") for region in ("usa", "county")}
    made.config |= dict.fromkeys(set(dhcb_inputs.BUDGETS) - kept, 0)
    made.write(home)


def s_dhc(home: Path) -> None:
    """Two states and the nation; with little noise, by which averages are made fast."""
    country(random_units(60, ["01", "44"], seed=38)).write(home / "data")
    write_configuration(home / "config.json", configuration(["01", "44"], budget="1"))


def change_tenure(home: Path) -> None:
    """Change the tenure of a household: a person more would change its recodes too."""
    path = home / "data/units.csv"
    header, *lines = [line.split(",") for line in path.read_text().splitlines()]
    at = header.index("TEN")
    unit = next(fields for fields in lines if fields[at] != "0")
    unit[at] = "3" if unit[at] in "12" else "1"
    path.write_text("".join(",".join(fields) + "\n" for fields in (header, *lines)))


def top_down(home: Path) -> None:
    """A state of the redistricting data: persons and units."""
    data = top_down_inputs.country(home, ("23",))
    (data / MARK_FILE).unlink()


def move_top_down(home: Path) -> None:
    """Change the race of a person: totals of states and blocks are declared, so a person more contradicts them."""
    path = home / "data/persons.txt"
    header, *lines = path.read_text().splitlines()
    at = header.split("|").index("CENRACE")
    fields = lines[-1].split("|")
    fields[at] = "02" if fields[at] == "01" else "01"
    path.write_text("\n".join([header, *lines[:-1], "|".join(fields), ""]))


def declared(home: Path) -> None:
    """The small country of tests/declarations.py."""
    declarations.write(home)


BOTTOM_UP = {
    "states": ["44", "45", "46"],
    "leaves": {"file": "counties.csv", "key": "COUNTY"},
    "levels": [{"name": "state", "columns": ["STATE"]}, {"name": "county", "columns": ["COUNTY"]}],
    "axes": {"SEX": {"column": "SEX", "values": ["1", "2"]}},
}


def bottom_up(home: Path) -> None:
    """Four counties of three states by sex."""
    (home / "declaration.json").write_text(json.dumps(BOTTOM_UP))
    (home / "counties.csv").write_text("STATE,COUNTY\n44,44001\n44,44003\n45,45001\n46,46001\n")
    (home / "names.csv").write_text("REGION_TYPE|REGION_ID|NAME\nCOUNTY|45001|Abbeville\nCOUNTY|45003|No leaf\n")
    (home / "table.csv").write_text("COUNTY,SEX\n" + "44001,1\n" * 5 + "44003,2\n" * 90 + "46001,2\n" * 4)


def toy(home: Path) -> None:
    (home / "lines.txt").write_text("\n" * 3 + "a line\n" * 37)


ALIKE = "its cells have one law, of which `das bottom-up noise` gives the errors in closed form"
WITHOUT_MARGINS = "its counts are estimates; the laws are those of measurements, which tests of the spine hold"
CASES = (
    Case(
        name="detailed-dhca",
        write=detailed_dhca,
        words="{home}/params {home}/data",
        options="--no-spine",
        other="--no-coterminous",
        out="us",
        total="5",
        add=twice("data/person-records.txt"),
        fault=faulty("data/person-records.txt", "|", "QAGE"),
        records=("data/person-records.txt",),
        drawn="totals",
        not_provable=frozenset(
            SAFETAB | {"coterminous_sets", "spine", "parquet/t1/*: COUNT", "configuration.zero_suppression_chance"},
        ),
    ),
    Case(
        name="detailed-dhcb",
        write=detailed_dhcb,
        words="{home}/params {home}/data",
        options="--estimates",
        other="--coterminous",
        out="us",
        unit="household",
        total="7",
        add=twice("data/household-records.txt"),
        fault=faulty("data/household-records.txt", "|", "TEN"),
        records=("data/household-records.txt",),
        drawn="household type and tenure",
        not_provable=frozenset(
            {
                *SAFETAB,
                *("totals.from", "totals.left_out", "levels.*.stability_parts.ethnicity"),
                *("levels.*.groups_published, and which groups", "parquet/estimates/*: *"),
                *(f"parquet/{table}001/*: COUNT" for table in ("t3/T03", "t4/T04")),
            }
        ),
    ),
    Case(
        name="s-dhc",
        write=s_dhc,
        words="{home}/config.json {home}/data",
        options="--estimates",
        exact="",
        out="us",
        total="50",
        add=change_tenure,
        fault=faulty("data/persons.csv", ",", "QAGE"),
        records=("data/persons.csv", "data/units.csv"),
        drawn="measure",
        estimated=("averages-*",),
        cannot={"other": "its one option, --estimates, is on for the rest of the suite"},
        not_provable=frozenset({*OF_EVERY, "P*: COUNT", "averages/*: *"}),
    ),
    Case(
        name="top-down",
        write=top_down,
        words="{home}/data",
        exact="{home}/errors --spine optimized --estimator topdown",
        other="--estimator gls",
        out="us",
        total="5",
        add=move_top_down,
        fault=faulty("data/persons.txt", "|", "CENRACE"),
        records=("data/persons.txt", "data/units.txt"),
        drawn="measure",
        estimated=("histograms-*", "mdf-*"),
        cannot={"margins": WITHOUT_MARGINS},
        not_provable=frozenset(
            {
                *(*OF_EVERY, *PUBLIC, "public_files.*", "products.*.solved", "products.*.failed"),
                *("measurements/*: value", "measurements/blocks/*: place, *"),
            }
        ),
    ),
    Case(
        name="declared",
        write=declared,
        words="{home}/records.csv --declaration {home}/small.json",
        other="--estimator gls",
        out="declared",
        total="3",
        add=last_line("records.csv", lambda line: [line[:-1] + ("3" if line[-1] != "3" else "4")]),
        fault=faulty("records.csv", ",", "AGE"),
        records=("records.csv",),
        drawn="estimate",
        estimated=("nation", "region", "district", "zone"),
        cannot={"margins": WITHOUT_MARGINS},
        not_provable=frozenset(
            {
                *(*OF_EVERY, "public_files.*", "solved", "failed", "configuration_digest"),
                "measurements/*: value",
            }
        ),
    ),
    Case(
        name="bottom-up",
        write=bottom_up,
        words="{home}/table.csv {home}/declaration.json",
        options="--epsilon 1/2",
        other="--clip",
        out="bottom-up",
        definition="puredp",
        total="3/4",
        add=twice("table.csv"),
        fault=faulty("table.csv", ",", "COUNTY"),
        records=("table.csv",),
        drawn="measure",
        axes=2,
        cannot={"validate": "tabulating is its validation", "truth": "a histogram is exact itself", "accuracy": ALIKE},
        not_provable=frozenset({*OF_EVERY, *PUBLIC}),
    ),
    Case(
        name="toy",
        write=toy,
        words="{home}/lines.txt",
        out="toy",
        total="3/2",
        add=twice("lines.txt"),
        records=("lines.txt",),
        fault=last_line("lines.txt", lambda line: [f"{line}\0{CANARY}"]),
        drawn="measure",
        cannot={
            "other": "no option shapes its release",
            "forgeries": "it has neither statements nor checks of its own",
        },
    ),
)
