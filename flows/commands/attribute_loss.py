"""`das attribute-loss`: the privacy loss when some attributes of one person change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from flows.reports.formats import Format, FormatOption, report
from flows.reports.terminal import Json, refusing
from tasks.lifecycle.errors import Refused
from tasks.pages.text_table import TextTable

if TYPE_CHECKING:
    from flows.reports.losses import Scale
    from privacy.analyses.attribute_loss_dhca import GroupLevel, Record
    from privacy.analyses.attribute_loss_s_dhc import Method, Table
    from spine.settings import Jurisdiction
    from tasks.attribute_loss.population_groups import Parameters
    from tasks.detailed_dhca.configuration import Configuration
    from tasks.population_groups.levels import Level

G = TypeVar("G")
ANALYST = "A described person's figures rest on that person's values: for analysts, not for release."
People = Annotated[list[str] | None, typer.Option("--person", help="A person, `key=value, ...`; may be repeated.")]
File = Annotated[Path | None, typer.Option("--people", help="A CSV of persons, its header the same keys.")]
Sets = Annotated[
    list[str] | None, typer.Option("--attributes", help="A set of attributes, `A,B,...`; may be repeated.")
]
Delta = Annotated[str | None, typer.Option(help="Show the epsilon of (epsilon, delta)-DP at this delta, not rho.")]
Attacker = Annotated[
    bool,
    typer.Option(
        "--attacker",
        help="Show how often an attacker who knows all else is right, at most, of 100, with 5 false alarms in 100.",
    ),
]


def dhc_a(
    parameters: Annotated[Path, typer.Argument(help="A config.json, or the directory of one with iteration files.")],
    person: People = None,
    people: File = None,
    attributes: Sets = None,
    crossed: Annotated[
        str, typer.Option(help="How far the block may change: anywhere, same state, same county, same tract.")
    ] = "anywhere",
    delta: Delta = None,
    attacker: Attacker = False,
    form: FormatOption = Format.table,
    as_json: Json = False,
) -> None:
    """A-attribute loss of the Detailed DHC-A, level by level: over all persons, and for described ones.

    Keys of a person: name; races (a number of race codes) or codes and ethnicity (the codes themselves, by spaces:
    needs the iteration files); place and aiannh (yes or no: the block is in one).
    Attributes: Age, Sex, Race, Ethnicity, Block.

    **Example:** `das attribute-loss dhc-a params/ --person "name=Ana, races=1, aiannh=no" --attributes Race,Age`
    """
    from flows.reports.losses import scale
    from privacy.analyses.attribute_loss_dhca import ATTRIBUTES, CROSSED, loss
    from tasks.attribute_loss.described import descriptions
    from tasks.attribute_loss.population_groups import read_parameters
    from tasks.detailed_dhca.configuration import Configuration

    if crossed not in CROSSED:
        raise Refused(f"unknown move {crossed!r}: {', '.join(CROSSED)}")
    read = read_parameters(parameters, Configuration)
    unit = scale(read.configuration.privacy_defn, delta, places=4, attacker=attacker)
    columns = attribute_sets(
        attributes or ["Age", "Sex", "Race", "Ethnicity", "Block", "Race,Ethnicity", "Age,Race"], ATTRIBUTES
    )
    columns |= {"all": frozenset(ATTRIBUTES)}
    described = [None, *descriptions(person or [], people)]
    levels = {jurisdiction: read.levels(jurisdiction) for jurisdiction in read.configuration.jurisdictions}

    def loss_of(group: GroupLevel, members: frozenset[str], record: Record | None) -> Fraction:
        return loss(group, read.configuration.stage_1_fraction, members, record, CROSSED[crossed])

    notes = _dhca_notes(read, unit, crossed, described=len(described) > 1)
    losses = levels, columns, described, read.record, loss_of
    _report_groups("Detailed DHC-A", "persons", *losses, unit, crossed, notes, form, as_json=as_json)


def _report_groups(
    product: str,
    records_of: str,
    levels: Mapping[Jurisdiction, Mapping[Level, G]],
    columns: Mapping[str, frozenset[str]],
    described: Sequence[dict[str, str] | None],
    record: Callable[[dict[str, str], Level], Record],
    loss_of: Callable[[G, frozenset[str], Record | None], Fraction],
    unit: Scale,
    crossed: str,
    notes: list[str],
    form: Format,
    *,
    as_json: bool,
) -> None:
    """Report the losses of every level and their total, over all records and for described ones, by jurisdiction."""
    tables, plain = [], []
    for jurisdiction, groups in levels.items():
        levels_named = {str(level): level.name for level in groups}  # the key in JSON, the name in tables
        for values in described:
            records = {level: record(values, level) if values else None for level in groups}
            rows = {
                str(level): {label: loss_of(group, members, records[level]) for label, members in columns.items()}
                for level, group in groups.items()
            }
            rows["total"] = {label: sum((row[label] for row in rows.values()), Fraction(0)) for label in columns}
            who = values["name"] if values else f"worst case over all {records_of}"
            title = f"A-attribute loss, {product}, {jurisdiction.upper()}: {who}"
            text = [[levels_named.get(level, level), *map(unit.text, row.values())] for level, row in rows.items()]
            tables.append(TextTable(title, ["level", *columns], text))
            each = {level: {label: unit.json(row[label]) for label in columns} for level, row in rows.items()}
            plain.append({"region": jurisdiction, "person": who, "levels": each})
    tables[-1] = replace(tables[-1], notes=notes)
    data = {"unit": unit.unit, "crossed": crossed, "notes": notes, "losses": plain}
    report(data, tables, form, as_json=as_json)


def dhc_b(
    parameters: Annotated[
        Path | None, typer.Argument(help="A config.json, or its directory; without it the production's (NMFv5).")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="A release of das ddhcb: its budgets.")] = None,
    person: People = None,
    people: File = None,
    attributes: Sets = None,
    crossed: Annotated[
        str, typer.Option(help="How far the block may change: anywhere, same state, same county, same tract.")
    ] = "anywhere",
    delta: Delta = None,
    attacker: Attacker = False,
    form: FormatOption = Format.table,
    as_json: Json = False,
) -> None:
    """A-attribute loss of the Detailed DHC-B for one household, level by level: over all, and for described ones.

    A household is described by its householder, with the keys of das attribute-loss dhc-a. Attributes: Type, Tenure,
    Race, Ethnicity, Block; the race and ethnicity are the householder's.

    **Example:** `das attribute-loss dhc-b --person "name=Ana, races=1, aiannh=no" --attributes Tenure,Race`
    """
    from flows.reports.household_losses import households_of_configuration, households_of_release
    from flows.reports.losses import scale
    from privacy.analyses.attribute_loss_dhca import CROSSED, HOUSEHOLD_ATTRIBUTES, loss_of_household
    from tasks.attribute_loss.described import descriptions

    if crossed not in CROSSED:
        raise Refused(f"unknown move {crossed!r}: {', '.join(CROSSED)}")
    if run and parameters:
        raise Refused("give a configuration or --run, not both")
    read = households_of_release(run) if run else households_of_configuration(parameters)
    unit = scale(read.definition, delta, places=4, attacker=attacker)
    columns = attribute_sets(
        attributes or ["Type", "Tenure", "Race", "Ethnicity", "Block", "Type,Tenure", "Race,Ethnicity"],
        HOUSEHOLD_ATTRIBUTES,
    )
    columns |= {"all": frozenset(HOUSEHOLD_ATTRIBUTES)}
    described = [None, *descriptions(person or [], people)]

    def loss_of(groups: Mapping[str, GroupLevel], members: frozenset[str], record: Record | None) -> Fraction:
        return loss_of_household(groups, members, record, CROSSED[crossed])

    notes = [f"Unit: {unit.unit}, of one household replaced. Budgets: {read.source}. Change of block: {crossed}."]
    notes += [ANALYST] * (len(described) > 1)
    losses = read.levels, columns, described, read.record, loss_of
    _report_groups("Detailed DHC-B", "households", *losses, unit, crossed, notes, form, as_json=as_json)


def _dhca_notes(read: Parameters[Configuration], unit: Scale, crossed: str, *, described: bool) -> list[str]:
    from privacy.analyses.attribute_loss_dhca import loss_of_crossing

    stability = "from the iteration files" if read.iterations else "max(2, max_race_codes) + 1, without iteration files"
    notes = [f"Unit: {unit.unit}. Stability: {stability}. Change of block: {crossed}."]
    if len(read.configuration.jurisdictions) == 2:
        cost = loss_of_crossing(read.levels("us").values(), read.levels("pr").values())
        notes.append(f"A move between the states and Puerto Rico costs at most {unit.text(cost)} over both releases.")
    return notes + [ANALYST] * described


def s_dhc(
    person: People = None,
    people: File = None,
    attributes: Sets = None,
    budgets: Annotated[str, typer.Option(help="`deck`, `nmfv8`, or a PHSafe config.json.")] = "deck",
    run: Annotated[Path | None, typer.Option(help="A release of das sdhc: its budgets.")] = None,
    method: Annotated[str, typer.Option(help="`deck`: the slides' rule; `tight`: a sharper bound.")] = "deck",
    by_table: Annotated[bool, typer.Option("--by-table", help="A column for each of PH1 to PH8.")] = False,
    delta: Delta = None,
    attacker: Attacker = False,
    form: FormatOption = Format.table,
    as_json: Json = False,
) -> None:
    """A-attribute loss of the Supplemental DHC for described persons; without any, for the slides' five.

    Keys of a person: name, age, relation, size (of the household); family (yes or no: a family household) and
    own_children (yes or no: an own child under 18 of the householder) where the relation leaves them open.
    Relations: householder, spouse, unmarried partner, biological child, adopted child, stepchild, sibling, parent,
    grandchild, parent-in-law, child-in-law, other relative, roommate, foster child, other nonrelative.
    Attributes: Age, Sex, Race, Ethnicity, Relation, HouseholdID, Tenure; without any the slides' eight secrets.

    **Example:** `das attribute-loss s-dhc --person "name=Ana, age=34, relation=spouse, size=4" --attributes Race,Age`
    """
    from flows.reports.losses import scale
    from privacy.analyses.attribute_loss_deck import PEOPLE, READINGS, RESULTS
    from privacy.analyses.attribute_loss_s_dhc import ATTRIBUTES, SECRETS, loss_by_table
    from tasks.attribute_loss.described import descriptions
    from tasks.attribute_loss.described import person as described

    if method not in ("deck", "tight"):
        raise Refused(f"unknown method {method!r}: deck or tight")
    unit = scale("zcdp", delta, places=3, attacker=attacker)
    if run is not None and budgets != "deck":
        raise Refused("give --budgets or --run, not both")
    if run is not None:
        from tasks.s_dhc.budgets import budgets_of_release, tables_of

        tables, source = tables_of(budgets_of_release(run)), str(run)
    else:
        tables, source = _budgets(budgets)
    persons = [described(values) for values in descriptions(person or [], people)] or list(PEOPLE)
    columns = attribute_sets(attributes, ATTRIBUTES) or SECRETS
    on_page = (
        run is None and budgets == "deck" and method == "deck" and not attributes and delta is None and not attacker
    )
    losses = [
        Loss(
            person=member.name,
            label=label,
            attributes=members,
            tables=loss_by_table(member, members, tables, cast("Method", method)),
            printed=RESULTS[member.name, label] if on_page and member in PEOPLE else None,
            reading=READINGS.get((member.name, label), "") if on_page and member in PEOPLE else "",
        )
        for member in persons
        for label, members in columns.items()
    ]
    notes = _page_notes(losses, unit)
    notes += [f"Unit: {unit.unit}. Budgets: {source}. Method: {method}.", ANALYST]
    table = _by_table if by_table else _by_person
    plain = [loss.json(unit) for loss in losses]
    data = {"unit": unit.unit, "budgets": source, "method": method, "notes": notes, "losses": plain}
    report(data, [table(losses, list(columns), unit, notes)], form, as_json=as_json)


@dataclass(frozen=True)
class Loss:
    """A cell of the report: the loss by table and, where the slides print the cell, their figure and its reading."""

    person: str
    label: str
    attributes: frozenset[str]
    tables: dict[str, Fraction]
    printed: Fraction | None
    reading: str

    @property
    def total(self) -> Fraction:
        """Of all tables."""
        return sum(self.tables.values(), Fraction(0))

    def text(self, unit: Scale) -> str:
        """Return the figure to show, starred where the printed one is another."""
        return unit.text(self.total) + "*" * bool(self.reading)

    def json(self, unit: Scale) -> dict[str, Any]:
        """Return the cell for `--json`."""
        tables = {name: unit.json(each) for name, each in self.tables.items()}
        page = {} if self.printed is None else {"printed": float(self.printed), "reading": self.reading}
        attributes = sorted(self.attributes)
        return {"person": self.person, "set": self.label, "attributes": attributes, "tables": tables} | (
            unit.json(self.total) | page
        )


def _page_notes(losses: list[Loss], unit: Scale) -> list[str]:
    """Return notes on the figures where the slides differ, and on where their table contradicts itself."""
    from privacy.analyses.attribute_sets import check_monotone

    cells = [loss for loss in losses if loss.printed is not None]
    notes = []
    for reading in dict.fromkeys(cell.reading for cell in cells if cell.reading):
        same = [cell for cell in cells if cell.reading == reading]
        where = f"{same[0].person}, {' and '.join(cell.label for cell in same)}"
        figures = f"printed {unit.text(Fraction(same[0].printed or 0))}, by the rule {unit.text(same[0].total)}"
        notes.append(f"* {where}: {figures}. The printed figure: {reading}.")
    for name in dict.fromkeys(cell.person for cell in cells):
        printed = {cell.label: cell.printed for cell in cells if cell.person == name and cell.printed is not None}
        sets = {cell.label: cell.attributes for cell in cells if cell.person == name}
        for small, large in check_monotone(sets, printed):
            notes.append(f"Printed and not monotone: {name}, {small} costs more than {large}, which includes it.")
    return notes


def _by_person(losses: list[Loss], columns: list[str], unit: Scale, notes: list[str]) -> TextTable:
    """Return one row per person, one column per set of attributes: the slides' Results."""
    shown = [loss.text(unit) for loss in losses]
    starts = range(0, len(losses), len(columns))
    rows = [[losses[at].person, *shown[at : at + len(columns)]] for at in starts]
    return TextTable("A-attribute loss, S-DHC", ["person", *columns], rows, notes)


def _by_table(losses: list[Loss], columns: list[str], unit: Scale, notes: list[str]) -> TextTable:
    """Return one row per person and set of attributes, one column per published table: the slides' {Relation} pages."""
    names = list(losses[0].tables)
    rows = [
        [f"{loss.person}, {loss.label}", *(unit.text(loss.tables[name]) for name in names), loss.text(unit)]
        for loss in losses
    ]
    return TextTable("A-attribute loss, S-DHC, by table", ["person, attributes", *names, "total"], rows, notes)


def _budgets(name: str) -> tuple[tuple[Table, ...], str]:
    from privacy.analyses.attribute_loss_deck import DECK, NMFV8_US
    from tasks.s_dhc.budgets import budgets_of_configuration, tables_of

    presets = {"deck": (DECK, "the slides'"), "nmfv8": (NMFV8_US, "PHSafe's production configuration NMFv8, US")}
    return presets.get(name) or (tables_of(budgets_of_configuration(Path(name))), name)


def attribute_sets(texts: Iterable[str] | None, attributes: Collection[str]) -> dict[str, frozenset[str]]:
    """Return the sets of attributes that were typed, by their labels. Raises Refused."""
    from privacy.analyses.attribute_sets import attributes_of

    with refusing():
        sets = [attributes_of((name.strip() for name in text.split(",")), attributes) for text in texts or ()]
    return {_label(members, attributes): members for members in sets}


def _label(members: frozenset[str], attributes: Collection[str]) -> str:
    return "all" if members == set(attributes) else ", ".join(name for name in attributes if name in members)
