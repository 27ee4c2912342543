"""What a declaration means, before any record is read: whom it protects, how it is solved, its costs and its margins.

All figures are of public files: the hierarchy, the laws of the noise, and measured rates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privacy.noise.margins import margin_of_error
from privacy.tables.histogram import Axis
from spine.declaration.declaration import Declaration, classify
from spine.declaration.form import expanded
from spine.declaration.product import NEGATED
from spine.geography import FloatArray
from spine.gls.grid import grid
from spine.top_down.queries import TOTAL
from tasks.records.files import file_name
from tasks.releases.pages.words import level_words
from tasks.top_down.choices import Estimator
from tasks.top_down.declared.public_tables import Declared, published_names
from tasks.top_down.declared.tables import query_title
from tasks.top_down.run_plan import law

# Microseconds of one core per unknown, and draws of a core and second: docs/declarations.md#what-a-run-costs.
LEAST_SQUARES, ROUNDING, DRAWS = (2, 100), (0.2, 10), (20e6, 50e6)
BYTES = 200  # per unknown of a parent: several arrays of 8 bytes
READ = 3  # answers read for an unknown of a wide table
WIDE_BYTES, WIDE_UNKNOWN = 256 << 20, 60  # memory of its queries; per unknown, as measured in made-up families
FULL_COPIES = 4  # copies of a batch's answers, exact and noisy, where all are published
GLS_COPIES = 5  # most copies of a level's information that least squares over the tree holds at once


@dataclass(frozen=True)
class LevelFacts:
    """A level: its geounits, the largest family below one, how it is estimated, and its share.

    margins: by query group that of one noisy answer, or in words that the counts are declared and have no error.
    """

    level: str
    geounits: int
    largest_family: int
    unknowns: int
    passes: str
    solver: str
    share: str
    margins: dict[str, int | str]


@dataclass(frozen=True)
class Explanation:
    """What `das tda explain` shows.

    unchanged: what is declared, published as it is and not protected. relations: the spend's. kind, why: the class of
    constraints. gls: whether there is least squares over the tree, or why not. answers: coordinates that are measured.
    seconds, memory: foreseen, of one core and in bytes.
    """

    name: str
    records: str
    cells: int
    possible: int
    unchanged: list[str]
    relations: list[dict[str, Any]]
    kind: str
    why: str
    feasibility: str
    levels: list[LevelFacts]
    answers: int
    seconds: tuple[float, float]
    memory: int
    excess: str
    gls: str
    remarks: list[str]

    @property
    def margins(self) -> list[list[str]]:
        """Return a row for each query group that a level asks: its name, and the margin of an answer on each level."""
        queries = dict.fromkeys(query for level in self.levels for query in level.margins)
        margins = {query: [level.margins.get(query, "not asked") for level in self.levels] for query in queries}
        return [
            [query, *(each if isinstance(each, str) else f"{each:,}" for each in row)] for query, row in margins.items()
        ]


def declared_unchanged(declaration: Declaration) -> list[str]:
    """Return what is declared and published unchanged, a sentence each; the last is the list of places."""
    form, records, leaf = declaration.form, declaration.records, level_words(declaration.levels[-1].name)
    said = [
        f"the number of {records} of every {' and '.join(total.of)} ({file_name(total.file)})" for total in form.totals
    ]
    for count in form.counts:
        columns = [column for column in count.columns if column]
        if count.is_total:
            said.append(f"the number of {records} of every {declaration.levels[-1].name} ({', '.join(columns)})")
            continue
        least = ", and each counted has the declared fewest" if any(count.least) else ""
        said.append(
            f"the counts {', '.join(columns)} of every {declaration.levels[-1].name}: no {form.records} is in a part "
            f"of {count.partition} whose count is 0{least}"
            + (
                ", and none has more than the declared most"
                if any(isinstance(most, int) for most in count.most)
                else ""
            )
        )
    names = published_names(form.model_dump())
    for equal in form.equal:
        said.append(
            f"the counts by {query_title(declaration, equal.partition)} in every {leaf} that {names[equal.release]} "
            "has published: the estimates have them, whatever the records have"
        )
    if form.copied:
        said.append(
            f"{len(form.copied)} columns of every {leaf}, {form.copied[0]} to {form.copied[-1]}, in the microdata"
        )
    for zero in form.zeros:
        where = " and ".join(_condition(declaration, *each) for each in zero.where.items())
        said.append(f"no {form.records} has {where}")
    said.append(f"the list of {declaration.levels[-1].name} units, and of those on the levels above them")
    return said


def _condition(declaration: Declaration, name: str, texts: Sequence[str]) -> str:
    """Return a condition in words: `age of the householder: 65 to 74, 75 to 84`."""
    known = declaration.product.named[name]
    labels = dict(zip(known.codes, known.labels, strict=True)) if isinstance(known, Axis) else {}
    said = []
    for text in texts:
        values = expanded(text.removeprefix(NEGATED))
        own = [labels[value] for value in values] if all(value in labels for value in values) else []
        words = own if own and tuple(own) != tuple(values) else [text.removeprefix(NEGATED)]
        said.append("other than " * text.startswith(NEGATED) + ", ".join(words))
    return f"{known.words}: {', '.join(said)}"


def explain(declared: Declared) -> Explanation:
    """Return what a declaration means."""
    declaration, plan = declared.declaration, declared.plan
    product, spend, (kind, why) = declaration.product, declared.spend, classify(declaration)
    levels = [_level(declared, number) for number in range(len(declaration.levels))]
    widths = declared.widths
    measured = [int((shares > 0).sum()) for shares in plan.spine.shares]
    answers = sum(widths[name] * number for name, number in zip(plan.spine.levels, measured, strict=True))
    unknowns = sum(_unknowns(declared, number) for number in range(len(levels)))
    drawn = READ * unknowns if declared.is_wide else 2 * answers
    each = [(LEAST_SQUARES[end] + ROUNDING[end]) * 1e-6 * unknowns + drawn / DRAWS[1 - end] for end in (0, 1)]
    return Explanation(
        name=declaration.form.name,
        records=declaration.records,
        cells=product.cells,
        possible=int(product.possible.sum()),
        unchanged=declared_unchanged(declaration),
        relations=spend.as_json()["relations"],
        kind=kind,
        why=why,
        feasibility=_feasibility(declared),
        levels=levels,
        answers=answers,
        seconds=(each[0], each[1]),
        memory=memory(declared),
        excess="none: the total of the top is declared"
        if declaration.form.totals or plan.bounds.totals[0] is not None
        else "none: the total of the top is estimated first, and kept",
        gls=f"not possible, for {hindrance}"
        if (hindrance := declared.hindrance)
        else f"possible, with {memory(declared, 'gls') >> 20:,} MiB a process",
        remarks=[*_remarks(declared, answers)],
    )


def memory(declared: Declared, estimator: Estimator = "topdown") -> int:
    """Return the bytes that a process needs: for the largest family, and for the answers of some geounits at once.

    In a wide declaration only levels whose answers are all published hold such answers. `gls` adds the information of a
    whole level above the leaves.
    """
    plan, widest, possible = declared.plan, max(declared.widths.values()), int(declared.plan.product.possible.sum())
    if declared.is_wide:  # a cell of a parent has a record or more
        records = [plan.bounds.totals[level] for level in range(len(plan.spine.levels) - 1)]
        unknowns = [
            int((plan.spine.children(level) * np.minimum(own.values, possible)).max())
            for level, own in enumerate(records)
            if own is not None
        ]
        form, number = declared.declaration.form, dict(zip(plan.spine.levels, map(len, plan.spine.starts), strict=True))
        answers = [min(plan.rows, number[name]) * declared.widths[name] for name in form.full_levels]
        return WIDE_BYTES + WIDE_UNKNOWN * max(unknowns) + FULL_COPIES * 8 * max(answers, default=0)
    largest = max(int(plan.spine.children(level).max()) for level in range(len(plan.spine.levels) - 1))
    needed = BYTES * largest * possible + 8 * max(plan.rows, largest) * widest
    if estimator == "topdown" or plan.closed_form:
        return needed
    sizes, geounits = grid(plan), max(plan.rows, *(len(starts) for starts in plan.spine.starts[:-1]))
    precision = sizes.components * (sizes.slots * sizes.shape[0]) ** 2
    return needed + GLS_COPIES * 8 * geounits * (plan.product.cells + precision)


def _level(declared: Declared, number: int) -> LevelFacts:
    declaration, plan = declared.declaration, declared.plan
    name, spine = declaration.levels[number].name, plan.spine
    families = spine.children(number - 1) if number else np.array([len(spine.starts[0])])
    share, known = declaration.allocation.levels[name], plan.bounds.totals[number]
    first = (
        "declared" if known is not None else "first" if name in plan.passes.total_first else "with the other queries"
    )
    margins: dict[str, int | str] = {
        query: _declared_counts(declared, number, query) or margin_of_error(law(declaration.allocation, share, alpha))
        for query, alpha in declaration.allocation.queries[name].items()
    }
    if TOTAL not in margins and (exact := _declared_counts(declared, number, TOTAL)):
        margins = {TOTAL: exact, **margins}  # that nobody asks
    return LevelFacts(
        level=name,
        geounits=len(spine.starts[number]),
        largest_family=int(families.max()),
        unknowns=int(families.max()) * int(declaration.product.possible.sum()),
        passes=f"total {first}",
        solver=_solver(declared, name),
        share=str(share),
        margins=margins,
    )


def _declared_counts(declared: Declared, level: int, query: str) -> str:
    """Return in words that the counts of a query group are declared in every geounit of a level; empty elsewhere."""
    form, product, known = declared.declaration.form, declared.declaration.product, declared.plan.bounds.totals[level]
    whole = known is not None and len(known.values) == len(declared.plan.spine.starts[level])
    fixed = [
        count.partition for count in form.counts if all(count.columns) and count.least and count.least == count.most
    ]
    if (whole and query == TOTAL) or any(product.refines(partition, query) for partition in fixed):
        return "exact: declared"
    return "as published" if any(product.refines(each.partition, query) for each in form.equal) else ""


def _solver(declared: Declared, level: str) -> str:
    """Return what solves the least squares of a level, in how many passes, and what its rounding."""
    plan = declared.plan
    if plan.closed_form:
        return "closed form"
    if declared.is_wide:
        return "transportation problems, minimum-cost flow"
    earlier = plan.passes.earlier.get(level, ())
    passes = f" in {len(earlier) + 1} passes" if earlier else ""
    twice = " twice" if level in plan.passes.kept else ""
    return f"least squares{passes}, rounding by minimum-cost flow{twice}"


def _unknowns(declared: Declared, level: int) -> int:
    """Return how many cells of geounits are unknown on a level: the allowed ones that the parent can have records in.

    Declared totals are spread evenly over their leaves, as the records of a parent are not known before a run.
    """
    plan, product = declared.plan, declared.declaration.product
    cells = np.bincount(product.types, product.possible, len(plan.bounds.least)).astype(np.int64)
    unknown = (plan.bounds.allowed(level) @ cells).astype(np.int64)
    if level == 0 or (records := _even_records(declared, level - 1)) is None:
        return int(unknown.sum())
    parent = plan.spine.geounit_of_block(level - 1)[plan.spine.starts[level]]
    return int(np.minimum(unknown, np.ceil(records)[parent]).sum())


def _even_records(declared: Declared, level: int) -> FloatArray | None:
    """Return the records of each geounit of a level, spread evenly over the leaves; None where no total is declared."""
    spine, totals = declared.plan.spine, declared.plan.bounds.totals
    known = max((number for number in range(level + 1) if totals[number] is not None), default=None)
    if known is None or (own := totals[known]) is None:
        return None
    group = own.group[spine.geounit_of_block(known)]
    records: FloatArray = (own.values / np.bincount(group))[group]
    return np.bincount(spine.geounit_of_block(level), records).astype(np.float64)


def _feasibility(declared: Declared) -> str:
    """Return why a parent's whole numbers always divide among its children."""
    bounds = declared.plan.bounds
    if declared.is_wide:
        return "inherited: each count of the release divides by itself"
    known = max((level for level, totals in enumerate(bounds.totals) if totals is not None), default=0)
    if not declared.declaration.form.counts and bounds.sets is None:
        return "only totals are declared, and each is the sum of those below it"
    if not known if bounds.sets is None else (bounds.sets.member.sum(axis=1) == 1).all():
        return "below the totals, each part of the counts divides by itself"
    return "compared for every set of parts with what the geounits below can take"


def _remarks(declared: Declared, answers: int) -> Iterator[str]:
    """Yield what a person may want to change."""
    declaration = declared.declaration
    if (tops := len(declared.plan.spine.starts[0])) > 1:
        top = declaration.levels[0].name
        yield f"levels: the top, {top}, has {tops} units; for a table of the whole add a level without columns above it"
    for axis in declaration.product.axes:
        if len(axis) == 1:
            yield f"axes.{axis.name}: it has one value, and divides nothing: leave it out, or add the others"
    for number, level in enumerate(declaration.levels):
        if useless := [query for query in declaration.queries(level.name) if _declared_counts(declared, number, query)]:
            yield (
                f"queries: the counts of {', '.join(useless)} are declared in {level.name}, so their share buys "
                f"nothing there: give {level.name} shares of its own without them, as [queries.{level.name}]"
            )
    if declared.is_wide:
        full = "".join(f", and all of {name}" for name in declaration.form.full_levels)
        yield f"{answers:,} answers are defined; only those that the estimation reads are drawn{full}"
    elif declaration.product.cells > 1 << 16 or answers > 10**9:
        yield f"axes: {answers:,} answers are measured and released; merge values, or ask detailed with a smaller share"
