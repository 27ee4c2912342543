"""The domain of a declaration (docs/declarations.md): leaves and axes are factors, levels and recodes groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product as pairs
from typing import Any

from spine.declaration.declaration import read_declaration
from spine.declaration.form import Form
from spine.declaration.hierarchy import leaf_keys
from spine.declaration.product import cell_values
from spine.top_down.histogram import Product
from tasks.records.declarations import beside, read_columns


def domain_of(path: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the domain that a declaration says, in the keys of one.

    Its budget, queries, totals, counts and passes are of the TopDown Algorithm alone. Raises ValueError with the first
    fault, and its key.
    """
    declaration, faults = read_declaration(raw)
    if declaration is None:
        raise ValueError(f"{faults[0].key}: {faults[0].text}")
    form, product = declaration.form, declaration.product
    key = form.record_key
    if len(key) > 1:
        raise ValueError(
            f"records_file.key: das bottom-up reads the leaf from one column, not from {', '.join(key)}; das tda "
            "explain has the margins of the TopDown Algorithm"
        )
    values = {name: cell_values(axis) for name, axis in form.axes.items()}
    if joint := next((f"{name}: {each[0]}" for name, cells in values.items() for each in cells if len(each) > 1), None):
        raise ValueError(f"axes.{joint} shares a cell with others, and das bottom-up counts each value: use a recode")
    columns = list(dict.fromkeys([*form.leaves.key, *(name for level in form.levels for name in level.columns)]))
    leaves, findings = read_columns(beside(path, form.leaves.file), columns, form.delimiter)
    if leaves is None:
        raise ValueError(f"leaves.file: {findings[0].rule}")
    leaf = form.leaves.key[0]
    if leaf in form.axes:  # one of them would be lost
        raise ValueError(f"axes.{leaf}: it has the name of leaves.key: choose another")
    factors: dict[str, Sequence[str]] = {leaf: leaf_keys(form, leaves)}
    factors |= {name: tuple(value for (value,) in cells) for name, cells in values.items()}
    groups = {name: {"of": leaf, "codes": codes} for name, codes in _levels(form, leaves)}
    for recode in product.recodes:
        codes = {level: recode.labels[part] for level, part in zip(factors[recode.axis], recode.part, strict=True)}
        groups[recode.name] = {"of": recode.axis, "codes": codes}
    return {
        "factors": factors,
        "read_from": {leaf: key[0]} | {name: axis.column for name, axis in form.axes.items()},
        "records": form.records,
        "unit": form.unit or form.records,
        "groups": groups,
        "structural_zeros": [*_zeros(product)],
        "delimiter": form.delimiter,
    }


def _levels(form: Form, leaves: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each column of a level above the leaves with its code of every leaf.

    Where equal codes under different parents name different geounits, the code has those above it: `2/01`.
    """
    above: list[str] = []
    for level in form.levels[:-1]:
        for name in level.columns:
            above.append(name)
            paths = ["/".join(codes) for codes in zip(*(leaves[each] for each in above), strict=True)]
            alone = len(set(leaves[name])) == len(set(paths))
            yield name, dict(zip(leaf_keys(form, leaves), leaves[name] if alone else paths, strict=True))


def _zeros(product: Product) -> Iterator[dict[str, str]]:
    """Yield the structural zeros by axis, one value each."""
    axes = {axis.name: axis for axis in product.axes}
    for where in product.zeros:
        for codes in pairs(*([axes[name].codes[at] for at in sorted(cells)] for name, cells in where.items())):
            yield dict(zip(where, codes, strict=True))
