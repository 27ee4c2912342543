"""Make a state's geounits and living quarters from its Constraint rows, which name every geounit of every level.

Geounits keep the files' geocodes. A parent's geocode is the prefix of its children's, in the length of its level; a
block's last 16 digits are its public code. Living quarters come from the blocks only: the program tightens bounds above
them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spine.geography import BoolArray, IntArray
from spine.hierarchy import Spine
from spine.redistricting import HOUSEHOLD, TYPES
from tasks.top_down.published.nmf.inventory import Faults, Inventory, PartFile
from tasks.top_down.published.nmf.rows import read_rows
from tasks.top_down.release.nmf_layout import (
    CONSTRAINTS,
    LEVELS,
    LOWER,
    TOTAL,
    UNITS_OF_BOUND,
    UPPER,
    Codes,
    read_order,
)
from tasks.top_down.run_plan import US

MOST_QUARTERS = 999_999_999  # as in a table of declared living quarters
PUBLIC = 16  # digits of a block's public code


class StateGeounits(NamedTuple):
    """The geounits of a product in a state.

    codes: by level, top first, (geounits, width) ASCII digits, in the order of the spine: sorted, or as das-flows had
    them. quarters: (blocks, 8) living quarters in this order; for units only the housing units. totals: the roots', if
    declared; else None.
    """

    codes: tuple[NDArray[np.uint8], ...]
    quarters: IntArray
    totals: IntArray | None

    @property
    def public(self) -> IntArray:
        """Return the (blocks,) public codes of 16 digits."""
        return self.codes[-1][:, -PUBLIC:].astype(np.int64) @ 10 ** np.arange(PUBLIC - 1, -1, -1) - _ZEROS


def spine_of(codes: tuple[NDArray[np.uint8], ...], number: IntArray) -> Spine:
    """Return the spine of geounits, without shares. number: each block's place in the geography."""
    starts = [np.flatnonzero(_begins(codes[-1][:, : level.shape[1]])) for level in codes]
    shares = tuple(np.zeros(len(start), np.int64) for start in starts)
    return Spine(LEVELS, number, tuple(starts), shares, 1)


_ZEROS = int("1" * PUBLIC) * ord("0")


class _Level(NamedTuple):
    """The Constraint rows of a level: sorted geocodes and, by query, (geounits, 8) values, -1 for no value."""

    codes: Codes
    values: dict[str, IntArray]
    file: str


def read_geounits(inventory: Inventory, product: str, state: str, faults: Faults) -> StateGeounits | None:
    """Return the geounits of a state, or None after a fault."""
    levels = [_read_level(inventory, product, level, state, faults) for level in LEVELS]
    found = [level for level in levels if level is not None]
    if len(found) < len(levels):
        return None
    widths = [level.codes.dtype.itemsize for level in found]
    if sorted(set(widths)) != widths or widths[-1] < widths[-2] + PUBLIC:
        faults.add(found[-1].file, f"geocodes of the levels have {', '.join(map(str, widths))} digits")
        return None
    broken = False
    for above, below in pairwise(found):
        prefix = below.codes.astype(above.codes.dtype)
        orphans = below.codes[~np.isin(prefix, above.codes)]
        barren = above.codes[~np.isin(above.codes, prefix)]
        faults.add(below.file, "a geounit without its parent", orphans.tolist())
        faults.add(above.file, "a geounit without children", barren.tolist())
        broken |= bool(len(orphans) or len(barren))
    blocks = found[-1]
    quarters = (_quarters if product == "persons" else _housing_units)(blocks, faults)
    if broken or quarters is None:
        return None
    root = found[0].values.get(TOTAL)
    totals = None if root is None or (root[:, 0] < 0).any() else root[:, 0]
    order = _order(inventory.of(product, LEVELS[-1], "Constraint", state), blocks, faults)
    codes = _digits(blocks.codes)[order]
    geounits = StateGeounits(tuple(digits_above(codes, width) for width in widths), quarters[order], totals)
    _check_blocks(geounits, blocks, faults)
    return geounits


def digits_above(blocks: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """Return the digits of the geounits above blocks, for blocks in the order of the spine."""
    return blocks[_begins(blocks[:, :width]), :width]


def _order(parts: list[PartFile], blocks: _Level, faults: Faults) -> IntArray:
    """Return the order of the spine, as numbers of sorted blocks: ascending, or as the writing run had it."""
    written = {part.state: part.order for part in parts if part.order}
    if not written:
        return np.arange(len(blocks.codes))
    orders: list[IntArray] = []
    for state, order in sorted(written.items()):
        first, last = np.searchsorted(blocks.codes, [f"{state}".encode(), f"{state}:".encode()]).tolist()
        try:
            orders.append(first + read_order(order, last - first))
        except ValueError:
            faults.add(parts[0].name, "the footer's order does not fit its blocks: export the files again")
            return np.arange(len(blocks.codes))
    return np.concatenate(orders)


def read_national_total(inventory: Inventory, product: str, faults: Faults) -> int | None:
    """Return the total declared for the US, or None."""
    level = _read_level(inventory, product, US, US, faults) if inventory.of(product, US, "Constraint", US) else None
    total = None if level is None else level.values.get(TOTAL)
    return None if total is None or len(total) != 1 or total[0, 0] < 0 else int(total[0, 0])


def _read_level(inventory: Inventory, product: str, level: str, state: str, faults: Faults) -> _Level | None:
    """Return the Constraint rows of a level, or None."""
    parts = inventory.of(product, level, "Constraint", state)
    shapes = CONSTRAINTS[product]
    rows = [(part, found) for part in parts for found in read_rows(part, shapes, faults) if len(found.code)]
    if not rows:
        faults.add(f"{product}, level {level}, state {state}", "no usable Constraint row")
        return None
    file = parts[0].name.rpartition("/")[0]
    code = np.concatenate([found.code for _, found in rows])
    length = np.char.str_len(code)
    width = int(np.bincount(length).argmax())
    faults.add(file, f"a geocode without the {width} digits of most of its level", code[length != width].tolist())
    query = np.concatenate([found.query for _, found in rows])
    value = np.concatenate([_padded(found.values, found.query, list(shapes.values())) for _, found in rows])
    keep = length == width
    codes, at = np.unique(code[keep].astype(f"S{max(width, 1)}"), return_inverse=True)
    values = {}
    for number, name in enumerate(shapes):
        own = query[keep] == number
        table = np.full((len(codes), TYPES), -1, np.int64)
        table[at[own]] = value[keep][own]
        twice = np.bincount(at[own], minlength=len(codes)) > 1
        faults.add(file, f"a row of {name}_con twice", codes[twice].tolist())
        if own.any():
            values[name] = table
    return _Level(codes, values, file)


def _padded(values: object, query: IntArray, shapes: list[tuple[int, ...]]) -> IntArray:
    """Return the (rows, 8) values, padded with zeros."""
    table = np.zeros((len(query), TYPES), np.int64)
    flat = values.flatten().to_numpy(zero_copy_only=False)  # type: ignore[attr-defined]
    width = np.array([shape[0] for shape in shapes])[query]
    row = np.repeat(np.arange(len(query)), width)
    table[row, np.arange(len(flat)) - np.repeat(np.cumsum(width) - width, width)] = flat
    return table


def _digits(codes: Codes) -> NDArray[np.uint8]:
    return np.ascontiguousarray(codes).view(np.uint8).reshape(len(codes), -1)


def _begins(digits: NDArray[np.uint8]) -> BoolArray:
    """Return where sorted rows differ from the row before."""
    begins = np.ones(len(digits), bool)
    begins[1:] = (digits[1:] != digits[:-1]).any(axis=1)
    return begins


def _quarters(blocks: _Level, faults: Faults) -> IntArray | None:
    """Return the living quarters from the bounds of the blocks' persons; None if a block is at fault."""
    none = np.full((len(blocks.codes), TYPES), -1, np.int64)
    lower, upper = blocks.values.get(LOWER, none), blocks.values.get(UPPER, none)
    found = upper // UNITS_OF_BOUND
    rules = {
        "a block without both bounds": (lower < 0).any(axis=1) | (upper < 0).any(axis=1),
        f"an upper bound that is not a multiple of {UNITS_OF_BOUND}": (upper % UNITS_OF_BOUND != 0).any(axis=1),
        "a lower bound above the upper bound": (lower > upper).any(axis=1),
        "bounds of different numbers of group quarters": (lower != found)[:, HOUSEHOLD + 1 :].any(axis=1),
        "a block without living quarters": (found == 0).all(axis=1),
        f"a block with more than {MOST_QUARTERS:,} living quarters of a type": (found > MOST_QUARTERS).any(axis=1),
    }
    return None if _any_fault(blocks, rules, faults) else found


def _housing_units(blocks: _Level, faults: Faults) -> IntArray | None:
    """Return the living quarters from the declared totals of the blocks' units."""
    total = blocks.values.get(TOTAL, np.full((len(blocks.codes), TYPES), -1, np.int64))[:, 0]
    rules = {
        "a block without its number of housing units": total < 0,
        f"a block with more than {MOST_QUARTERS:,} housing units": total > MOST_QUARTERS,
    }
    if _any_fault(blocks, rules, faults):
        return None
    quarters = np.zeros((len(total), TYPES), np.int64)
    quarters[:, HOUSEHOLD] = total
    return quarters


def _any_fault(blocks: _Level, rules: dict[str, BoolArray], faults: Faults) -> bool:
    """Add the first rule that each block breaks; return whether a block breaks one."""
    bad = np.zeros(len(blocks.codes), bool)
    for rule, wrong in rules.items():
        faults.add(blocks.file, rule, blocks.codes[wrong & ~bad].tolist())
        bad |= wrong
    return bool(bad.any())


def _check_blocks(geounits: StateGeounits, blocks: _Level, faults: Faults) -> None:
    public = geounits.public
    order = np.argsort(public, kind="stable")
    twice = order[1:][public[order][1:] == public[order][:-1]]
    faults.add(blocks.file, "a block that shares its last 16 digits with another", blocks.codes[twice].tolist())
    state = geounits.codes[-1][:, 1:3].astype(np.int64) @ (10, 1) - 11 * ord("0")
    rule = "a block with another state than its geocode"
    faults.add(blocks.file, rule, blocks.codes[public // 10**14 != state].tolist())
