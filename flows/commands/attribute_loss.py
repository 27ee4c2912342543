"""`das attribute-loss`: the privacy loss when some attributes of one person change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.reports.figures import up
from flows.reports.terminal import Format, FormatOption, report
from privacy.accounting.states import STATES_US
from privacy.analyses.attribute_loss_dhca import CROSSED, loss_of_crossing
from privacy.analyses.attribute_loss_s_dhc import ATTRIBUTES, DECK, PEOPLE, SECRETS, Method, TableSpend, loss_by_table
from tasks.errors import Refused
from tasks.releases.pages.text_table import TextTable
from tasks.releases.pages.words import query_title

if TYPE_CHECKING:
    from flows.reports.losses import SafeTabQueries, Scale

Found = Mapping[str, Mapping[str, Fraction]]  # losses by set of attributes, then by query
BYPASSED = (
    "A level's row is for geounits with the level's own share. A bypass answers a level with the shares of levels "
    "below it, so the total is the largest over all paths: it may exceed the sum of the rows."
)
ANALYST = "A described person's figures depend on that person's values: for analysts, not for release."
ATTACKER = (
    "Suppose somebody knows everything else and guesses whether these attributes were changed. If they say so wrongly "
    "5 times in 100, they say so rightly at most {most} times in 100; without the release, 5. Each figure of the "
    "tables is such a bound, and this the largest of them."
)
Source = Annotated[
    Path | None,
    typer.Argument(
        metavar="SOURCE", help="A config.json, or the directory of one with iteration files.  [default: production]"
    ),
]
People = Annotated[list[str] | None, typer.Option("--person", help="A person, `key=value, ...`; may be repeated.")]
Move = Literal["anywhere", "same state", "same county", "same tract"]  # the keys of CROSSED
Crossed = Annotated[Move, typer.Option(help="How far the block may change.")]
Sets = Annotated[list[str] | None, typer.Option(help="A set of attributes, `A,B,...`; may be repeated.")]
ByQuery = Annotated[bool, typer.Option("--by-query", help="Each query of a level, or PH1 to PH8, by itself.")]
InBudget = Annotated[
    bool,
    typer.Option(
        "--budget",
        help="Show rho or epsilon, not how often an attacker who knows all else is right, at most, of 100.",
    ),
]


@dataclass(frozen=True)
class Shown:
    """The losses to show, and the format."""

    attributes: Sets = None
    by_query: ByQuery = False
    in_budget: InBudget = False
    form: FormatOption = Format.table

    def report(self, data: dict[str, Any], tables: Sequence[TextTable], notes: Sequence[str], most: float) -> None:
        """Print tables, with notes below the last, after what they mean; most: the largest of an attacker's figures."""
        tables = [*tables[:-1], replace(tables[-1], notes=notes)]
        meaning = "" if self.in_budget else ATTACKER.format(most=up(most, 1))
        report(data | {"notes": notes}, tables, self.form, meaning)


def dhc_a(source: Source = None, person: People = None, crossed: Crossed = "anywhere", *, shown: Shown) -> None:
    """A-attribute loss of the Detailed DHC-A, level by level: over all persons, and for described persons.

    Keys of a person: name; races (a number of race codes) or codes and ethnicity (the codes themselves, by spaces:
    needs the iteration files); place and aiannh (yes or no: the block is in one).
    Attributes: Age, Sex, Race, Ethnicity, Block.

    **Example:** `das attribute-loss dhc-a params/ --person "name=Ana, races=1, aiannh=no" --attributes Race,Age`
    """
    from flows.reports.losses import persons

    _report_groups(persons(source), person, crossed, shown)


def dhc_b(source: Source = None, person: People = None, crossed: Crossed = "anywhere", *, shown: Shown) -> None:
    """A-attribute loss of the Detailed DHC-B for one household, level by level: over all, and for described ones.

    A household is described by its householder, with the keys of das attribute-loss dhc-a. Attributes: Type, Tenure,
    Race, Ethnicity, Block; the race and ethnicity are the householder's.

    **Example:** `das attribute-loss dhc-b --person "name=Ana, races=1, aiannh=no" --attributes Tenure,Race`
    """
    from flows.reports.losses import households

    _report_groups(households(source), person, crossed, shown)


def _report_groups(read: SafeTabQueries, persons: Sequence[str] | None, crossed: Move, shown: Shown) -> None:
    """Report the losses of every level and their total, over all records and for described ones, by jurisdiction."""
    from flows.reports.losses import Scale
    from tasks.attribute_loss.described import descriptions

    unit = Scale(read.definition, 4, shown.in_budget)
    columns = attribute_sets(shown.attributes or read.sets, read.attributes)
    notes = [
        f"Unit: {unit.unit}. One {read.record_noun} is replaced. Budgets: {read.source}. Change of block: {crossed}."
    ]
    if read.gamma is not None and len(read.levels) == 2:
        left, entered = ([queries[""] for queries in levels.values()] for levels in read.levels.values())
        cost = unit.text(loss_of_crossing(left, entered))
        notes.append(f"A move between the states and Puerto Rico: at most {cost} over both releases.")
    described = descriptions(persons or ())
    tables, plain = list[TextTable](), list[dict[str, Any]]()
    for jurisdiction, levels in read.levels.items():
        for values in (None, *described):
            records = {level: read.record(values, level) if values else None for level in levels}
            found = {
                (str(level), level.name): {
                    label: read.losses(queries, members, records[level], CROSSED[crossed])
                    for label, members in columns.items()
                }
                for level, queries in levels.items()
            }
            who = values["name"] if values else f"worst case over all {read.record_noun}s"
            title = (
                f"A-attribute loss of one {read.record_noun} replaced, {read.product}, {jurisdiction.upper()}: {who}"
            )
            table, each = _levels(title, found, unit, by_query=shown.by_query)
            tables.append(table)
            plain.append({"region": jurisdiction, "person": who, "levels": each})
    notes += [ANALYST] * bool(described)
    most = max(loss["attacker"] for each in plain for loss in each["levels"]["total"].values())
    shown.report({"unit": unit.budget, "crossed": crossed, "losses": plain}, tables, notes, most)


def _levels(
    title: str,
    found: Mapping[tuple[str, str], Found],
    unit: Scale,
    *,
    by_query: bool,
    total: Mapping[str, Fraction] | None = None,
) -> tuple[TextTable, dict[str, Any]]:
    """Return a row for each level, for its queries if requested, and for the total, as a table and for --json.

    found: by level (its key and its name), the losses by set of attributes and query. total: by default the sum of the
    levels.
    """
    rows: dict[tuple[str, str], dict[str, Fraction]] = {}
    for (key, name), by_set in found.items():
        rows[key, name] = {label: sum(losses.values(), Fraction(0)) for label, losses in by_set.items()}
        for query in by_set["all"] if by_query else ():
            rows[f"{key}: {query}", f"  {query}"] = {label: losses[query] for label, losses in by_set.items()}
    columns = list(next(iter(found.values())))
    rows["total", "total"] = dict(total or {}) or {
        label: sum((rows[level][label] for level in found), Fraction(0)) for label in columns
    }
    text = [[name, *map(unit.text, row.values())] for (_, name), row in rows.items()]
    plain = {key: {label: unit.json(loss) for label, loss in row.items()} for (key, _), row in rows.items()}
    return TextTable(title, ["level", *columns], text), plain


def tda(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="SOURCE", help="A declaration.  [default: production of the redistricting data]"),
    ] = None,
    *,
    shown: Shown,
) -> None:
    """A-attribute loss of the TopDown Algorithm, level by level, over all records.

    Attributes: the axes of the table, and its last level (Block), the place of a record. A query that does not ask for
    the axis of an attribute costs nothing.

    **Example:** `das attribute-loss tda --attributes hispanic,cenrace --by-query`
    """
    from flows.reports.losses import Scale, histograms

    tables, plain, notes = list[TextTable](), list[dict[str, Any]](), list[str]()
    measured = histograms(source)
    every = dict.fromkeys(name for read in measured for name in read.attributes)
    sets = attribute_sets(shown.attributes or every, [*every])
    for read in measured:
        unit = Scale(read.allocation.definition, 4, shown.in_budget)
        own = {label: members.intersection(read.attributes) for label, members in sets.items()}
        columns = {label: members for label, members in own.items() if members}
        found = {
            (level, level): {label: read.losses(level, members) for label, members in columns.items()}
            for level in read.levels
        }
        title = f"A-attribute loss of one record replaced, {read.title}: worst case"
        total = {label: read.most(members) for label, members in columns.items()}
        table, each = _levels(title, found, unit, by_query=shown.by_query, total=total)
        notes = [f"Unit: {unit.unit}. One record is replaced, declared figures unchanged. Budgets: {read.source}."]
        meanings = {name: query_title(name) for name in columns} | {read.levels[-1]: "where the record is"}
        words = [f"{name}: {meanings[name]}" for name in columns if meanings[name] != name]
        notes += [f"{', '.join(words)}."] * bool(words)
        notes += [BYPASSED] * read.bypassed
        tables.append(replace(table, notes=notes))
        plain.append({"table": read.title, "levels": each})
    most = max(loss["attacker"] for each in plain for loss in each["levels"]["total"].values())
    shown.report({"unit": unit.budget, "losses": plain}, tables, notes, most)


def s_dhc(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="SOURCE", help="A config.json, or a release of das sdhc.  [default: production]"),
    ] = None,
    person: People = None,
    slides: Annotated[bool, typer.Option("--slides", help="The slides' budgets in place of the production's.")] = False,
    method: Annotated[Method, typer.Option(help="`deck`: the slides' rule; `tight`: a sharper bound.")] = "deck",
    *,
    shown: Shown,
) -> None:
    """A-attribute loss of the Supplemental DHC for described persons; without any, for the slides' five.

    Keys of a person: name, age, relation, size (of the household); family (yes or no: a family household) and
    own_children (yes or no: an own child under 18 of the householder) where the relation leaves them open.
    Relations: householder, spouse, unmarried partner, biological child, adopted child, stepchild, sibling, parent,
    grandchild, parent-in-law, child-in-law, other relative, roommate, foster child, other nonrelative.
    Attributes: Age, Sex, Race, Ethnicity, Relation, HouseholdID, Tenure; without any the slides' eight secrets.

    **Example:** `das attribute-loss s-dhc --person "name=Ana, age=34, relation=spouse, size=4" --attributes Race,Age`
    """
    from flows.reports.losses import Scale
    from tasks.attribute_loss.described import descriptions
    from tasks.attribute_loss.described import person as described

    if slides and source is not None:
        raise Refused("give SOURCE or --slides, not both")
    unit = Scale("zcdp", 3, shown.in_budget)
    tables, budgets = _tables(source, slides=slides)
    columns = attribute_sets(shown.attributes, ATTRIBUTES) if shown.attributes else SECRETS
    found = {
        (member.name, label): loss_by_table(member, members, tables, method)
        for member in [described(values) for values in descriptions(person or ())] or PEOPLE
        for label, members in columns.items()
    }
    total = {key: sum(losses.values(), Fraction(0)) for key, losses in found.items()}
    plain = [
        {"person": name, "set": label, "attributes": sorted(columns[label])}
        | {"tables": {table: unit.json(each) for table, each in losses.items()}}
        | unit.json(total[name, label])
        for (name, label), losses in found.items()
    ]
    if shown.by_query:  # the slides' {Relation} pages
        rows = [[", ".join(key), *map(unit.text, [*losses.values(), total[key]])] for key, losses in found.items()]
        title, head = "A-attribute loss, S-DHC, by table", ["person, attributes", *next(iter(found.values())), "total"]
    else:  # the slides' Results
        names = dict.fromkeys(name for name, _ in found)
        rows = [[name, *(unit.text(total[name, label]) for label in columns)] for name in names]
        title, head = "A-attribute loss, S-DHC", ["person", *columns]
    notes = [f"Unit: {unit.unit}. Budgets: {budgets}. Method: {method}.", ANALYST]
    data = {"unit": unit.budget, "budgets": budgets, "method": method, "losses": plain}
    shown.report(data, [TextTable(title, head, rows)], notes, max(each["attacker"] for each in plain))


def _tables(source: Path | None, *, slides: bool) -> tuple[tuple[TableSpend, ...], str]:
    """Return what each table spends, and the name of these budgets."""
    from tasks.s_dhc.budgets import budgets_of_configuration, read_budgets, tables_of
    from tasks.synth.params import PRODUCTION, SDHC_CONFIG

    if slides:
        return DECK, "the slides'"
    if source is not None:
        return tables_of(read_budgets(source)), str(source)
    run = {"state_filter": list(STATES_US), "reader": "csv"}
    return tables_of(budgets_of_configuration(PRODUCTION / SDHC_CONFIG, run)), "production, United States (NMFv8)"


def attribute_sets(texts: Iterable[str], attributes: Collection[str]) -> dict[str, frozenset[str]]:
    """Return the typed sets of attributes, and the set of all, by label. Raises Refused."""
    known = {attribute.casefold(): attribute for attribute in attributes} | {name: name for name in attributes}
    sets = {}
    for text in texts:
        names = [name.strip() for name in text.split(",")]
        if unknown := [name for name in names if name not in known and name.casefold() not in known]:
            raise Refused(f"there is no attribute {unknown[0]!r}: choose from {', '.join(attributes)}")
        members = frozenset(known.get(name) or known[name.casefold()] for name in names)
        if members != set(attributes):
            sets[", ".join(name for name in attributes if name in members)] = members
    return sets | {"all": frozenset(attributes)}
