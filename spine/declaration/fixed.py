"""Find the numbers of records that the declared figures fix, all counts and totals together (docs/declarations.md).

In a leaf the sets of cells that have a fewest or a most nest, and so do the leaf itself and the groups of leaves that
have a total. So they are a tree, in which a node has the records of its children and of the cells outside all children.
Going up finds what the figures below a node admit, going down what those above and beside it leave: both ends of the
range of every node are attained, in whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from privacy.tables.histogram import TOTAL
from spine.declaration.figures import Figures
from spine.declaration.form import Form
from spine.declaration.hierarchy import Hierarchy
from spine.geography import BoolArray, FloatArray, IntArray
from spine.top_down.queries import query_group


@dataclass(eq=False)
class Node:
    """A set of parts in every leaf, with the fewest and the most records, (leaves,), that it is found to admit.

    inside: (parts,). counts: the places of the `[[counts]]` that declare the set. children: the largest sets in it.
    rest: (leaves,) the most records in the parts that no child has, 0 or without limit.
    """

    inside: BoolArray
    low: FloatArray
    high: FloatArray
    counts: set[int] = field(default_factory=set)
    children: list[Node] = field(default_factory=list)
    rest: FloatArray = field(default_factory=lambda: np.zeros(0))


def fixed_groups(hierarchy: Hierarchy, figures: Figures) -> list[str]:
    """Return what a record agrees in with any that could replace it, by numbers of records that are fixed.

    These are the groups of totals; and where some leaf has a fixed number of records, not 0, in a part with a fewest or
    a most, the leaf, and the names in the partition of the counts that declare the part.
    """
    form = hierarchy.declaration.form
    groups = [" and ".join(total.of) for total in form.totals]
    for at in sorted(_fixed_counts(hierarchy, figures)):
        partition = form.counts[at].partition
        groups += [form.levels[-1].name, *([] if partition == TOTAL else partition.split("*"))]
    return list(dict.fromkeys(groups))


def _fixed_counts(hierarchy: Hierarchy, figures: Figures) -> set[int]:
    """Return the places of the `[[counts]]` that have a part with a fixed number of records above 0 in some leaf."""
    form = hierarchy.declaration.form
    bounded = {at for at, each in enumerate(form.counts) if any(each.least) or _is_limited(form, at)}
    if not (figures.totals or any(_is_limited(form, at) for at in bounded)):
        return set()  # more records of any part are always possible
    nodes = _tree(hierarchy, figures)
    for node in nodes:
        lows, highs = _of_children(node)
        node.low, node.high = np.maximum(node.low, lows.sum(axis=0)), np.minimum(node.high, highs.sum(axis=0))
    if figures.totals:
        group, _, values = max(figures.totals, key=lambda each: len(each[2]))  # the finest groups imply the others
        _narrow_to_totals(nodes[-1], group, values)
    for node in reversed(nodes):
        lows, highs = _of_children(node)
        least, most = node.low - _sum_of_others(highs), node.high - _sum_of_others(lows)
        for child, low, high in zip(node.children, least, most, strict=False):
            child.low, child.high = np.maximum(child.low, low), np.minimum(child.high, high)
    return {at for node in nodes if ((node.low == node.high) & (node.low > 0)).any() for at in node.counts}


def _is_limited(form: Form, at: int) -> bool:
    return any(isinstance(most, int) for most in form.counts[at].most)


def _tree(hierarchy: Hierarchy, figures: Figures) -> list[Node]:
    """Return the bounded sets as a tree, children first; the last is the whole leaf."""
    product, form = hierarchy.declaration.product, hierarchy.declaration.form
    parts, leaves = int(product.types.max()) + 1, hierarchy.spine.blocks
    has_cells = np.bincount(product.types, product.possible, parts) > 0
    allowed = np.repeat(has_cells[None], leaves, axis=0)
    found: dict[bytes, Node] = {}

    def node(inside: BoolArray) -> Node:
        return found.setdefault(inside.tobytes(), Node(inside, np.zeros(leaves), np.full(leaves, np.inf)))

    for number, (each, own) in enumerate(zip(form.counts, figures.counts, strict=True)):
        coordinate = np.zeros(parts, np.int64)
        coordinate[product.types] = query_group(product, each.partition).coordinate
        for at, column in enumerate(each.columns):
            inside = (coordinate == at) & has_cells
            if not column or not inside.any():
                continue
            allowed[:, inside] &= (own[:, at] > 0)[:, None]
            few, many = each.least[at] if each.least else 0, each.most[at] if each.most else ""
            if few or isinstance(many, int):
                declared = node(inside)
                declared.counts.add(number)
                declared.low = np.maximum(declared.low, own[:, at] * float(few))
                if isinstance(many, int):
                    declared.high = np.minimum(declared.high, own[:, at] * float(many))
    node(has_cells)
    nodes = sorted(found.values(), key=lambda each: each.inside.sum())
    _adopt(nodes, allowed)
    return nodes


def _adopt(nodes: Sequence[Node], allowed: BoolArray) -> None:
    """Give each node its children, and the room of the parts that no child has. nodes: the smallest first."""
    orphans: list[Node] = []
    for node in nodes:
        node.children = [each for each in orphans if not (each.inside & ~node.inside).any()]
        orphans = [*(each for each in orphans if each not in node.children), node]
        alone = node.inside & ~np.logical_or.reduce([each.inside for each in node.children], axis=0, initial=False)
        node.rest = np.where(allowed[:, alone].any(axis=1), np.inf, 0.0)


def _of_children(node: Node) -> tuple[FloatArray, FloatArray]:
    """Return the (children + 1, leaves) fewest and most records of the children and, last, of the rest."""
    lows = [*(each.low for each in node.children), np.zeros(len(node.rest))]
    return np.array(lows), np.array([*(each.high for each in node.children), node.rest])


def _sum_of_others(values: FloatArray) -> FloatArray:
    """Return for each row the sum of all other rows; some may be infinite."""
    endless = np.isinf(values)
    finite = np.where(endless, 0.0, values)
    return np.where(endless.sum(axis=0) - endless > 0, np.inf, finite.sum(axis=0) - finite)


def _narrow_to_totals(leaf: Node, group: IntArray, values: IntArray) -> None:
    """Narrow the ranges of leaves to what the total of each group leaves them."""
    for own in np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group, minlength=len(values)))[:-1]):
        low, high, total = leaf.low[own], leaf.high[own], values[group[own]]
        leaf.low[own] = np.maximum(low, total - _sum_of_others(high))
        leaf.high[own] = np.minimum(high, total - _sum_of_others(low))
