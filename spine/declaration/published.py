"""Tables that a release of a declaration has besides those of its queries: counts of its cells within a universe.

They are read off the released histograms, so neither noise nor estimates depend on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from privacy.tables.histogram import Histogram
from spine.declaration.form import Fault, Form, PublishedTable, Zero, is_writable
from spine.declaration.product import MOST_CELLS, read_histogram


@dataclass(frozen=True, eq=False)
class UniverseTable:
    """A table of counts by a partition. name: its files' name. title, universe: in words.

    inside: by axis, the coordinates of the universe, if not all. histogram: with the recodes of `by`.
    """

    name: str
    title: str
    universe: str
    by: str
    inside: Mapping[str, frozenset[int]]
    histogram: Histogram


def read_published(form: Form, asked: Iterable[str]) -> tuple[list[UniverseTable], list[Fault]]:
    """Return the published tables of a form whose axes and recodes have no faults, and every fault of the tables.

    asked: the partitions that have tables of their own.
    """
    recodes, faults = form.publish.recodes, list[Fault]()
    faults += [Fault(f"publish.recodes.{name}", "recodes has it, too") for name in recodes.keys() & form.recodes.keys()]
    narrowed = {name: table for name, table in form.publish.tables.items() if table.where}
    changes = {
        "recodes": form.recodes | recodes,
        "zeros": tuple(Zero(where=table.where) for table in narrowed.values()),
    }
    histogram, wrong = read_histogram(form.model_copy(update=changes), MOST_CELLS)
    for key, text in wrong:
        kind, _, rest = key.partition(".")
        number, _, at = rest.partition(".")
        faults.append(
            Fault(f"publish.tables.{[*narrowed][int(number)]}.{at}" if kind == "zeros" else f"publish.{key}", text)
        )
    if histogram is None:
        return [], faults
    inside = dict(zip(narrowed, histogram.zeros, strict=True))
    slugs = {each.replace(" ", "").replace("*", "-").casefold() for each in asked} | {"cells"}
    for name, table in form.publish.tables.items():
        faults += _faults(name, table, histogram)
        if name in slugs:
            faults.append(Fault(f"publish.tables.{name}", f"{name} is a query's table: choose another name"))
        if not all(inside.get(name, {"": {0}}).values()):
            faults.append(Fault(f"publish.tables.{name}.where", "nothing meets it"))
    tables = [
        UniverseTable(name, table.title, table.universe, table.by, inside.get(name, {}), histogram)
        for name, table in form.publish.tables.items()
    ]
    return ([] if faults else tables), faults


def _faults(name: str, table: PublishedTable, histogram: Histogram) -> list[Fault]:
    key, found = f"publish.tables.{name}", []
    for part in ("title", "universe"):
        if not is_writable(text := getattr(table, part)):
            found.append(Fault(f"{key}.{part}", f"{text!r:.50} is empty, has | or \" or a line's end, or is a formula"))
    try:
        histogram.asked(table.by)
    except ValueError as error:
        found.append(Fault(f"{key}.by", str(error)))
    return found
