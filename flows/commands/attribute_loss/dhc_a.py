"""`das attribute-loss dhc-a`: the Detailed DHC-A, level by level."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.commands.attribute_loss.options import ANALYST, Delta, File, People, Sets, attribute_sets
from flows.reports.formats import Format, FormatOption, report
from flows.reports.terminal import Json
from tasks.lifecycle.errors import Refused
from tasks.pages.text_table import TextTable

if TYPE_CHECKING:
    from flows.reports.losses import Scale
    from tasks.attribute_loss.detailed_dhca import Parameters

WORST = "worst case over all persons"


def dhc_a(
    parameters: Annotated[Path, typer.Argument(help="A config.json, or the directory of one with iteration files.")],
    person: People = None,
    people: File = None,
    attributes: Sets = None,
    crossed: Annotated[
        str, typer.Option(help="How far the block may change: anywhere, same state, same county, same tract.")
    ] = "anywhere",
    delta: Delta = None,
    form: FormatOption = Format.table,
    as_json: Json = False,
) -> None:
    """A-attribute loss of the Detailed DHC-A, level by level: over all persons, and for described ones.

    Keys of a person: name; races (a number of race codes) or codes and ethnicity (the codes themselves, by spaces:
    needs the iteration files); place and aiannh (yes or no: the block lies in one).
    Attributes: Age, Sex, Race, Ethnicity, Block.

    **Example:** `das attribute-loss dhc-a params/ --person "name=Ana, races=1, aiannh=no" --attributes Race,Age`
    """
    from flows.reports.losses import scale
    from privacy.analyses.attribute_loss_dhca import ATTRIBUTES, CROSSED, loss
    from tasks.attribute_loss.described import descriptions
    from tasks.attribute_loss.detailed_dhca import read_parameters

    if crossed not in CROSSED:
        raise Refused(f"unknown move {crossed!r}: {', '.join(CROSSED)}")
    read = read_parameters(parameters)
    unit = scale(read.configuration.privacy_defn, delta, places=4)
    columns = attribute_sets(
        attributes or ["Age", "Sex", "Race", "Ethnicity", "Block", "Race,Ethnicity", "Age,Race"], ATTRIBUTES
    )
    columns |= {"all": frozenset(ATTRIBUTES)}
    described = [None, *descriptions(person or [], people)]
    tables, plain = [], []
    notes = _dhca_notes(read, unit, crossed, described=len(described) > 1)
    for jurisdiction in read.configuration.jurisdictions:
        levels = read.levels(jurisdiction)
        for values in described:
            records = {level: read.record(values, level) if values else None for level in levels}
            rows = {
                str(level): {
                    label: loss(group, read.configuration.stage_1_fraction, members, records[level], CROSSED[crossed])
                    for label, members in columns.items()
                }
                for level, group in levels.items()
            }
            rows["total"] = {label: sum((row[label] for row in rows.values()), Fraction(0)) for label in columns}
            who = values["name"] if values else WORST
            title = f"A-attribute loss, Detailed DHC-A, {jurisdiction.upper()}: {who}"
            text = [[level, *map(unit.text, row.values())] for level, row in rows.items()]
            tables.append(TextTable(title, ["level", *columns], text))
            each = {level: {label: unit.json(row[label]) for label in columns} for level, row in rows.items()}
            plain.append({"region": jurisdiction, "person": who, "levels": each})
    tables[-1] = replace(tables[-1], notes=notes)
    data = {"unit": unit.unit, "crossed": crossed, "notes": notes, "losses": plain}
    report(data, tables, form, as_json=as_json)


def _dhca_notes(read: Parameters, unit: Scale, crossed: str, *, described: bool) -> list[str]:
    from privacy.analyses.attribute_loss_dhca import loss_of_crossing

    stability = "from the iteration files" if read.iterations else "max(2, max_race_codes) + 1, without iteration files"
    notes = [f"Unit: {unit.unit}. Stability: {stability}. Change of block: {crossed}."]
    if len(read.configuration.jurisdictions) == 2:
        cost = loss_of_crossing(read.levels("us").values(), read.levels("pr").values())
        notes.append(f"A move between the states and Puerto Rico costs at most {unit.text(cost)} over both releases.")
    return notes + [ANALYST] * described
