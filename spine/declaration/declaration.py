"""A declaration: a file's histogram, workload, levels and passes.

`read_declaration` checks everything that needs no table, and returns all faults at once, each with its key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from privacy.tables.histogram import DETAILED, TOTAL
from spine.allocations import Allocation
from spine.declaration.form import (
    OF_BOTTOM_UP,
    DeclaredLevel,
    Fault,
    Form,
    PassForm,
    expanded,
    read_form,
    record_faults,
)
from spine.declaration.product import COLUMNS, read_product
from spine.declaration.published import UniverseTable, read_published
from spine.geography import BoolArray
from spine.settings import Definition
from spine.top_down.histogram import Product
from spine.top_down.plan import Passes
from spine.top_down.queries import query_group

REST = "rest"
TWO_PASSES = (("total",), ("rest",))
ONE_PASS = ((("rest",),), (("total", "rest"),))
Split = dict[str, tuple[tuple[str, ...], ...]]  # by level the passes between the total's and the last
TAKEN = ("solves", "dictionary", "datapackage", "manifest", "report", *COLUMNS)  # names in releases and runs
MOST_ANCHORED = 1024  # sums, which are all coupled
MOST_QUERIES = 100  # a level's queries: files of measurements number them in one byte
LONGEST_QUERY = 200  # characters of a query, which names a folder of a release's tables


@dataclass(frozen=True, eq=False)
class Declaration:
    """A declaration without faults. form: its file. product: the histogram. allocation: budget and shares."""

    form: Form
    product: Product
    allocation: Allocation
    passes: Passes

    @property
    def levels(self) -> tuple[DeclaredLevel, ...]:
        """Return the levels, top first."""
        return self.form.levels

    @property
    def definition(self) -> Definition:
        """Return the privacy definition."""
        return self.form.mechanism

    @property
    def records(self) -> str:
        """Return what records are, in the plural."""
        return f"{self.form.records}s"

    def queries(self, level: str) -> list[str]:
        """Return the query groups that a level asks."""
        return list(self.allocation.queries[level])

    @property
    def published(self) -> list[UniverseTable]:
        """Return the tables of a release besides those of its queries."""
        return read_published(self.form, ())[0]


def read_declaration(raw: Mapping[str, Any]) -> tuple[Declaration | None, list[Fault]]:
    """Return the declaration in a file, or None and all faults that are seen without its tables."""
    form, faults = read_form(raw, Form)
    if form is None:
        return None, faults
    faults += record_faults(form)
    only = "only das bottom-up reads it: leave it out of a declaration for das tda"
    faults += [Fault(key, only) for key in OF_BOTTOM_UP if key in form.model_fields_set]
    if form.budget <= 0:
        faults.append(Fault("budget", f"it is {form.budget}: a budget is positive"))
    faults += _levels(form)
    shares = _level_shares(form, faults)
    product, wrong = read_product(form)
    faults += wrong
    if product is None:
        return None, faults
    queries = _queries(form, faults)
    faults += read_published(form, (query for _, query in _partitions(form)))[1]
    faults += _totals(form)
    faults += _ranges(form)
    if unknown := [*_unknown_partitions(form, product)]:
        return None, faults + unknown
    faults += _counts(form, product)
    chain = _chain(form, product, queries[form.levels[-1].name], faults)
    faults += _then_faults(form, product, chain)
    faults += _wide_faults(form, product, chain, queries)
    first, earlier = _passes(form, queries, faults)
    given = form.passes or (PassForm(levels=("",)),)
    if len({each.band for each in given}) > 1 or not 0 < given[0].band < Fraction(1, 2):
        faults.append(Fault("passes.band", "levels have one band, above 0 and below 1/2"))
    if len({each.cells for each in given}) > 1:
        faults.append(Fault("passes.cells", "levels have one weight of the cells: give the same in every pass"))
    if faults:
        return None, faults
    allocation = Allocation(form.mechanism, form.budget, shares, queries, form.name)
    kept = _kept(form, earlier)
    passes = Passes(
        frozenset(first), chain, float(given[0].band), given[0].cells, earlier, *kept, on_grid=bool(form.equal)
    )
    return Declaration(form, product, allocation, passes), []


def _levels(form: Form) -> Iterator[Fault]:
    names = [level.name for level in form.levels]
    folded = [name.casefold() for name in names]
    for at, level in enumerate(form.levels):
        key = f"levels.{at}"
        if folded.index(folded[at]) < at or folded[at] in TAKEN:
            yield Fault(f"{key}.name", f"{level.name} is another level's name, or has another meaning: choose another")
        if level.made is None:
            if at and not level.columns:
                yield Fault(f"{key}.columns", f"{level.name} is below the top: name the columns of its geounits")
        elif level.columns or not 0 < at == len(names) - 2 or level.made.within != names[at - 1]:
            yield Fault(f"{key}.made", "a made level has no columns, is above the leaves and within the level above it")
    for name in form.histograms or ():
        if name not in names:
            yield Fault("histograms", _no_level(name, names))


def _no_level(name: str, names: Sequence[str]) -> str:
    return f"there is no level {name}; the levels are {', '.join(names)}"


def _level_shares(form: Form, faults: list[Fault]) -> dict[str, Fraction]:
    """Return the share of each level; equal ones where none is given."""
    given = {level.name: level.share for level in form.levels}
    if all(share is None for share in given.values()):
        return dict.fromkeys(given, Fraction(1, len(given)))
    shares = {name: share for name, share in given.items() if share is not None}
    if missing := sorted(given.keys() - shares.keys()):
        faults.append(Fault("levels.share", f"{missing[0]} has no share: give every level one, or none"))
    else:
        faults += _sum_to_one("levels.share", shares)
    return shares


def _sum_to_one(key: str, shares: Mapping[str, Fraction]) -> Iterator[Fault]:
    if (wrong := next((name for name, share in shares.items() if share <= 0), None)) is not None:
        yield Fault(key, f"the share of {wrong} is {shares[wrong]}: shares are positive")
    elif sum(shares.values()) != 1:
        yield Fault(key, f"the shares sum to {sum(shares.values())}, not to 1")


def _queries(form: Form, faults: list[Fault]) -> dict[str, dict[str, Fraction]]:
    """Return for each level the share of each query group."""
    names = [level.name for level in form.levels]
    common = {name: share for name, share in form.queries.items() if not isinstance(share, dict)}
    own = {name: shares for name, shares in form.queries.items() if isinstance(shares, dict)}
    faults += [Fault(f"queries.{name}", _no_level(name, names)) for name in own if name not in names]
    queries = {name: own.get(name, common) for name in names}
    checked = {"queries": common} if len(own) < len(names) or common else {}
    checked |= {f"queries.{name}": shares for name, shares in own.items()}
    for key, shares in checked.items():
        faults += _sum_to_one(key, shares)
        if len(shares) > MOST_QUERIES:
            faults.append(Fault(key, f"a level asks at most {MOST_QUERIES} query groups"))
        if long := [query for query in shares if len(query) > LONGEST_QUERY]:
            text = f"the query {long[0]:.40}… is longer than {LONGEST_QUERY} characters: shorten the names of its axes"
            faults.append(Fault(key, text))
        if DETAILED not in shares:
            faults.append(Fault(key, "the query detailed is not asked: the cells would not be determined"))
    return queries


def _partitions(form: Form) -> Iterator[tuple[str, str]]:
    """Yield every partition that the file names, with its key."""
    for name, share in form.queries.items():
        yield from (
            ((f"queries.{name}.{query}", query) for query in share)
            if isinstance(share, dict)
            else ((f"queries.{name}", name),)
        )
    yield from ((f"counts.{at}.partition", each.partition) for at, each in enumerate(form.counts))
    yield from ((f"equal.{at}.partition", each.partition) for at, each in enumerate(form.equal))
    for at, each in enumerate(form.passes):
        yield from (("passes.round", name.removesuffix("!")) for name in each.round)
        yield from ((f"passes.{at}.then.round", name) for then in each.then for name in then.round)
    yield from (("passes.anchors", name) for name, _ in _anchors(form))


def _anchors(form: Form) -> Iterator[tuple[str, Fraction]]:
    for each in form.passes:
        yield from each.anchors.items()
        for then in each.then:
            yield from then.anchors.items()


def _unknown_partitions(form: Form, product: Product) -> Iterator[Fault]:
    """Yield a fault for each partition with an unknown axis or recode, or with an axis twice."""
    for key, name in _partitions(form):
        try:
            product.asked(name)
        except ValueError as error:
            yield Fault(key, str(error))


def _totals(form: Form) -> Iterator[Fault]:
    names = [level.name for level in form.levels]
    leaf_columns = {column for level in form.levels for column in level.columns}
    made = {level.name for level in form.levels if level.made}
    for at, total in enumerate(form.totals):
        if (wrong := next((name for name in total.of if name in made), None)) is not None:
            yield Fault(f"totals.{at}.of", f"{wrong} is made, not declared: it has no totals")
            continue
        if len(total.of) == 1 and total.of[0] in names:
            continue
        if (wrong := next((name for name in total.of if name not in leaf_columns), None)) is not None:
            text = f"{wrong} is neither a level nor a column of one: the levels are {', '.join(names)}"
            yield Fault(f"totals.{at}.of", text)
    if not form.totals and not form.totals_are_known and form.levels[0].columns:
        yield Fault("totals", f"{form.levels[0].name} has several geounits and none above: declare a total of each")


def _ranges(form: Form) -> Iterator[Fault]:
    """Yield faults of the ranges in a release's values."""
    for at, each in enumerate(form.equal):
        for name, texts in each.only.items():
            try:
                _ = [*map(expanded, texts)]
            except ValueError as error:
                yield Fault(f"equal.{at}.only.{name}", str(error))


def _counts(form: Form, product: Product) -> Iterator[Fault]:
    for at, count in enumerate(form.counts):
        width = product.width(count.partition)
        for name in ("columns", "least", "most"):
            given = getattr(count, name)
            if (given or name == "columns") and len(given) != width:
                text = f"it has {len(given)} entries for the {width} parts of {count.partition}"
                yield Fault(f"counts.{at}.{name}", text)
    partitions = [each.partition for each in form.counts] + [each.partition for each in form.equal]
    names = ["*".join(sorted(partition.split("*"))) for partition in partitions]
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        yield Fault("counts", f"{twice} has two sets of counts: give each partition's once")
    if pair := first_crossing(product, form.binding):
        keys = {each.partition: f"equal.{at}.partition" for at, each in enumerate(form.equal)}
        keys |= {each.partition: f"counts.{at}.partition" for at, each in enumerate(form.counts)}
        crossing = f"bounds of {pair.one} and {pair.other} cross: {pair.where(product)}"
        yield Fault(keys[pair.other], f"{crossing}; leave out least, most or equal of one of them")


def _chain(form: Form, product: Product, asked: Iterable[str], faults: list[Fault]) -> tuple[str, ...]:
    """Return the nested sums that rounding keeps close to, coarse to fine, without the total and the cells.

    If several partitions have bounds, the sums nest with them.
    """
    given = {
        tuple(name for name in (text.removesuffix("!") for text in each.round) if name not in (TOTAL, DETAILED))
        for each in form.passes
        if each.round
    }
    if len(given) > 1:
        faults.append(Fault("passes.round", "levels have one chain: give the same in every pass"))
    bounded = form.binding
    if form.is_wide:
        return next(iter(given), ())
    if not form.one_partition:
        if first_crossing(product, bounded):
            return ()  # refused by `_counts`
        sums = [name for name in asked if not first_crossing(product, [*bounded, name])]
        chain = next(iter(given)) if given else _longest_chain(product, [], sums)
        if wrong := first_crossing(product, [*bounded, *chain]):
            faults.append(Fault("passes.round", f"{wrong.one} and {wrong.other} cross: round sums that nest"))
        return tuple(sorted(chain, key=product.width))
    if not given:
        return _longest_chain(product, bounded, asked)
    chain = next(iter(given))
    if bounded == [TOTAL]:
        chain = (TOTAL, *chain)
    faults += _not_refined(product, "passes.round", chain)
    if bounded and chain[:1] != tuple(bounded):
        faults.append(Fault("passes.round", f"counts of {bounded[0]} are declared: it comes after the total"))
    return chain


def _not_refined(product: Product, key: str, chain: Sequence[str]) -> Iterator[Fault]:
    for coarse, fine in pairwise(chain):
        if not product.refines(fine, coarse):
            yield Fault(key, f"{fine} does not refine {coarse}: each sum is of the one before it")


class Crossing(NamedTuple):
    """Two partitions with parts that cross: they overlap, and neither holds the other. cell: in both parts."""

    one: str
    other: str
    cell: int

    def where(self, product: Product) -> str:
        """Return in words where the parts cross."""
        at = np.unravel_index(self.cell, product.shape)
        cell = ", ".join(f"{axis.name} {axis.labels[int(own)]}" for axis, own in zip(product.axes, at, strict=True))
        return f"of their parts around the cell ({cell}) neither holds the other"


def first_crossing(product: Product, partitions: list[str]) -> Crossing | None:
    """Return two partitions with parts that cross; None where any two parts are nested or disjoint."""
    for one, other in combinations(partitions, 2):
        fine, coarse = query_group(product, one), query_group(product, other)
        together = fine.coordinate.astype(np.int64) * coarse.width + coarse.coordinate
        pairs = np.unique(together[product.possible])
        meets = np.bincount(pairs // coarse.width, minlength=fine.width), np.bincount(pairs % coarse.width)
        crossing = (meets[0][pairs // coarse.width] > 1) & (meets[1][pairs % coarse.width] > 1)
        if crossing.any():
            inside = (together == pairs[np.flatnonzero(crossing)[0]]) & product.possible
            return Crossing(one, other, int(np.flatnonzero(inside)[0]))
    return None


def _longest_chain(product: Product, bounded: list[str], asked: Iterable[str]) -> tuple[str, ...]:
    """Return the longest chain of asked query groups, from `bounded` on, in which each refines the one before."""
    groups = sorted((product.width(name), name) for name in asked if name not in (TOTAL, DETAILED))
    best: dict[str, tuple[str, ...]] = {name: (name,) for name in bounded}
    for _, name in groups:
        before = [chain for last, chain in best.items() if last != name and product.refines(name, last)]
        if (before or not bounded) and name not in bounded:
            best[name] = (*max(before, key=len, default=()), name)
    return max(best.values(), key=len, default=())


def _passes(form: Form, queries: Mapping[str, Mapping[str, Fraction]], faults: list[Fault]) -> tuple[set[str], Split]:
    """Return the levels whose totals are estimated first, and the passes of a level between that and the last.

    By default the totals come first on all levels but the last, and at the top where it is free.
    """
    names = [level.name for level in form.levels]
    given: dict[str, tuple[tuple[str, ...], ...]] = {}
    for at, each in enumerate(form.passes):
        for name in each.levels:
            if name not in names:
                faults.append(Fault(f"passes.{at}.levels", _no_level(name, names)))
            elif name in given:
                faults.append(Fault(f"passes.{at}.levels", f"the level {name} has passes already"))
            else:
                faults += _pass_faults(f"passes.{at}.least_squares", _all(each, queries[name]), queries[name])
            given[name] = _all(each, queries.get(name, {}))
        if any(text.endswith("!") and text != "total!" for text in each.round):
            faults.append(Fault(f"passes.{at}.round", "only the total comes before all that follows"))
    by_level = {name: given.get(name, TWO_PASSES if name != names[-1] else ONE_PASS[0]) for name in names}
    first = {name for name, own in by_level.items() if own[:1] == ((TOTAL,),)}
    earlier = {name: own[name in first : -1] for name, own in by_level.items()}
    wrong_totals = any(fault.key.startswith("totals") for fault in faults)  # other faults would repeat these
    for name in sorted(first, key=names.index):
        known = (total.of[0] in names[names.index(name) :] for total in form.totals)  # or sums of declared ones
        if TOTAL not in queries[name] and not (wrong_totals or form.totals_are_known or any(known)):
            text = f"no total of {name} is declared, so it is estimated first: give `total` a share here, too"
            faults.append(Fault(f"queries.{name}", text))
    if not form.totals and not form.totals_are_known and names[0] not in first:
        text = "no total is declared: estimate it first, or counts that cannot be negative would add records to it"
        faults.append(Fault("passes", f"{names[0]}: {text}"))
    return first, {name: own for name, own in earlier.items() if own}


def _all(own: PassForm, asked: Mapping[str, Fraction]) -> tuple[tuple[str, ...], ...]:
    """Return all passes of a level; `rest` before `then` is what is asked and named nowhere, without the cells."""
    if not own.then:
        return own.least_squares
    later = own.then[0].least_squares
    named = {TOTAL, DETAILED, *(name for each in (*own.least_squares, *later) for name in each)}
    rest = tuple(name for name in asked if name not in named)
    return (*(rest if each == (REST,) else each for each in own.least_squares), *later)


def _kept(form: Form, earlier: Split) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return by level the number of earlier passes after which the chain is kept, and the chain from then on."""
    own = {name: each for each in form.passes if each.then for name in each.levels}
    kept = {name: len(earlier[name]) - len(each.then[0].least_squares) + 1 for name, each in own.items()}
    return kept, next((each.then[0].round for each in own.values()), ())


def _then_faults(form: Form, product: Product, chain: tuple[str, ...]) -> Iterator[Fault]:
    """Yield what is wrong with passes after a rounding."""
    own = {f"passes.{at}.then": each for at, each in enumerate(form.passes) if each.then}
    if len({each.then[0].round for each in own.values()}) > 1:
        yield Fault("passes.then.round", "levels have one chain: give the same in every pass")
    for key, each in own.items():
        if not chain or not (form.one_partition or form.is_wide):
            yield Fault(key, "it keeps what was rounded: round sums before, of counts of one partition without limits")
        if not any(name not in (TOTAL, DETAILED) for own in each.least_squares for name in own):
            yield Fault(key, "the passes before it ask no sums")
        yield from _not_refined(product, f"{key}.round", (*chain[-1:], *each.then[0].round))


def _wide_faults(
    form: Form, product: Product, chain: tuple[str, ...], queries: Mapping[str, Mapping[str, Fraction]]
) -> Iterator[Fault]:
    """Yield what keeps a release's sums from dividing every parent into transportation problems."""
    choices = ["read", "all", *(f"above {level.name}" for level in form.levels)]
    if form.measurements not in choices:
        yield Fault("measurements", f"it is one of {', '.join(choices)}, not {form.measurements!r:.50}")
    if not form.is_wide and form.model_fields_set & {"measurements"}:
        yield Fault("measurements", "only passes with `then` next to `equal` read few answers; others publish all")
    for at, each in enumerate(form.counts):
        if each.repair and not form.is_wide:
            yield Fault(f"counts.{at}.repair", "records switch inside the sums of `equal`, after passes with `then`")
        elif each.repair and (each.most or not chain or not product.refines(chain[-1], each.partition)):
            text = "it is of counts without `most`, of a partition that the last of `round` refines"
            yield Fault(f"counts.{at}.repair", text)
    asked = {"*".join(sorted(name.split("*"))) for own in queries.values() for name in own}
    for name, weight in _anchors(form):
        if not form.is_wide or weight <= 0:
            yield Fault("passes.anchors", "they have positive weights, and are of passes with `then` next to `equal`")
        if "*".join(sorted(name.split("*"))) in asked:
            yield Fault("passes.anchors", f"{name} is asked: an anchor is a sum that no query asks")
        if product.width(name) > MOST_ANCHORED:
            yield Fault("passes.anchors", f"{name} has more than {MOST_ANCHORED:,} sums")
        if form.is_wide and chain and name in form.passes[0].anchors and not product.refines(chain[-1], name):
            yield Fault("passes.anchors", f"{name} is not a sum of {chain[-1]}, the last of `round`: give it in `then`")
    if not form.is_wide:
        return
    if len(form.equal) > 1 or form.kept_counts or form.totals:
        text = 'next to passes with `then`, it is alone: give other counts repair = "switch", and no totals'
        yield Fault("equal", text)
    if {name for each in form.passes if each.then for name in each.levels} != {*queries} or len(form.passes) > 1:
        yield Fault("passes.levels", "next to `equal`, passes with `then` are those of all levels")
    elif len(form.passes[0].least_squares) > 1 or len(form.passes[0].then[0].least_squares) > 1:
        yield Fault("passes.least_squares", "next to `equal`, there is one pass before `then` and one in it")
    yield from _switch_faults(form, product)
    if form.mechanism != "zcdp":
        yield Fault("mechanism", "next to `equal`, passes with `then` need zcdp, whose answers have the same weights")
    if len({frozenset(own) for own in queries.values()}) > 1 or (
        chain and any(chain[-1] not in queries[name] for name in queries)
    ):
        yield Fault("queries", "next to `equal` and `then`, all levels ask the same, with the last of `round`")
    if chain:
        yield from _not_refined(product, "passes.round", (form.equal[0].partition, *chain))
        for level, own in queries.items():
            first = [name for each in _all(form.passes[0], own)[:1] for name in each if name in own]
            for name in (name for name in first if not product.refines(chain[-1], name)):
                text = f"{name} is not a sum of {chain[-1]}, the last of `round`: ask it in `then`"
                yield Fault(f"queries.{level}.{name}", text)


def _switch_faults(form: Form, product: Product) -> Iterator[Fault]:
    """Yield what could leave records of a wide table without a part to switch to, or a part without enough records.

    Parts that share a known sum all have counts, or none has, and have possible cells in the same sums. Then each can
    give records to any other, in every sum that it has records in.
    """
    repaired = [(f"counts.{at}", each) for at, each in enumerate(form.counts) if each.repair]
    for key, each in repaired:
        if len(repaired) > 1 or len(product.asked(each.partition)) != 1:
            text = "records switch between the parts of one axis: repair one set of counts, of an axis or of a recode"
            yield Fault(f"{key}.repair", text)
        elif len(each.columns) == product.width(each.partition):
            equal, counted = form.equal[0].partition, np.array([*map(bool, each.columns)])
            meets = meeting(product, equal, each.partition)
            if (both := meets[counted].any(axis=0) & meets[~counted].any(axis=0)).any():
                name = each.columns[int((meets[:, both].any(axis=1) & counted).argmax())]
                text = f"{name} shares sums of {equal} with a part without a column, from which no record switches"
                yield Fault(f"{key}.columns", f"{text}: declare counts of both, or tell them apart in `equal`")
            elif (shared := np.unique(meets[counted], axis=0).sum(axis=0) > 1).any():
                one, *others = np.flatnonzero(meets[:, shared.argmax()]).tolist()
                other = next(other for other in others if (meets[other] != meets[one]).any())
                text = f"{each.columns[one]} and {each.columns[other]} share some sums of {equal}, and not all that"
                yield Fault(f"{key}.partition", f"{text} they have: tell them apart in `equal`, or change the zeros")


def meeting(product: Product, sums: str, parts: str) -> BoolArray:
    """Return (parts, sums): whether a possible cell is in both."""
    (own, width), (part, number) = product.partition(sums), product.partition(parts)
    found: BoolArray = np.zeros((number, width), bool)
    found[part[product.possible], own[product.possible]] = True
    return found


def _pass_faults(key: str, passes: Sequence[tuple[str, ...]], asked: Mapping[str, Fraction]) -> Iterator[Fault]:
    """Yield what is wrong with the passes of a level."""
    if passes in (TWO_PASSES, *ONE_PASS):
        return
    named = [name for each in passes for name in each]
    if not all(passes):
        yield Fault(key, "a pass asks nothing")
    if (twice := next((name for name in named if named.count(name) > 1), None)) is not None:
        yield Fault(key, f"{twice} is in two passes")
    for name in named:
        if name not in asked and name not in (REST, TOTAL):
            yield Fault(key, f"{name} is not asked on the level")
    if not passes or passes[-1] not in ((REST,), (DETAILED,)) or REST in (name for own in passes[:-1] for name in own):
        yield Fault(key, 'the last pass is ["rest"]: the cells, and all that no pass before has named')
    elif passes[-1] == (DETAILED,) and (left := next((name for name in asked if name not in (*named, TOTAL)), None)):
        yield Fault(key, f"{left} is in no pass")
    if any(TOTAL in own and own != (TOTAL,) for own in passes) or TOTAL in named[1:]:
        yield Fault(key, "the total has the first pass, or none")


def classify(declaration: Declaration) -> tuple[Literal["A", "B"], str]:
    """Return the class of the constraints that a declaration puts on every child, and why, in words.

    A: counts of one partition, and the whole. B: counts of several partitions, of which any two bounded parts are
    nested or disjoint. Rows of the parent and a laminar family of each child make a network: its rounding is a
    minimum-cost flow. Counts that only close parts (without least, most or equal) bound no sum, so they may cross and
    leave the network as it is. Bounds that cross are refused.
    """
    product, partitions = declaration.product, declaration.form.partitions
    if len(partitions) <= 1:
        return "A", f"one partition: counts of {partitions[0]}, and the whole" if partitions else "the whole alone"
    if pair := first_crossing(product, partitions):
        crossing = f"counts of {pair.one} and {pair.other} cross: {pair.where(product)}"
        return "B", f"{crossing}; one of them only closes parts that count 0"
    return "B", f"any two parts of {', '.join(partitions)} are nested or disjoint"
