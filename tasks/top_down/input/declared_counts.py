"""How the records of leaves contradict the counts that are declared of them."""

from __future__ import annotations

from collections.abc import Iterator

from spine.declaration.form import CountForm
from spine.geography import BoolArray, IntArray
from spine.top_down.histogram import Product
from spine.top_down.queries import group_sums, query_group


def broken_counts(
    product: Product, counted: CountForm, declared: IntArray, leaf: IntArray, cell: IntArray, count: IntArray
) -> Iterator[tuple[str, BoolArray]]:
    """Yield how records contradict the declared counts of a partition: a rule, and the leaves that break it.

    declared: (leaves, parts). leaf, cell, count: the records'.
    """
    records = group_sums(query_group(product, counted.partition), len(declared), leaf, cell, count)
    for part, column in enumerate(counted.columns):
        if not column:
            continue
        there, number = records[:, part], declared[:, part]
        yield f"records in the part that {column} counts, where it is 0", (there > 0) & (number == 0)
        if counted.least:
            yield f"fewer records than {column} needs", there < number * counted.least[part]
        if counted.most and isinstance(most := counted.most[part], int):
            yield f"more records than {column} allows", there > number * most
