"""Block assignment files: one table per layer of areas, joined (`BlockAssign_ST44_RI_INCPLACE_CDP.txt` and others).

A layer lists blocks by BLOCKID, their 15 digits. A blank, or a missing row, means that a block is outside the layer's
areas. The layer of places lists every block.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spine.geography import BadGeography
from tasks.errors import Refused
from tasks.records.block_codes import BLOCK_COLUMNS, DISTRICTS
from tasks.records.files import locate
from tasks.records.public_table import TableFault, open_table

if TYPE_CHECKING:
    import pandas as pd

PLACES = "_INCPLACE_CDP"
# Layer, its column of codes, and the name of that column in the joined table.
LAYERS = {
    PLACES: ("PLACEFP", "PLACEFP"),
    "_AIANNH": ("AIANNHCE", "AIANNHCE"),
    "_MCD": ("COUSUBFP", "COUSUBFP"),
    **{layer: ("DISTRICT", name) for layer, name in zip(("_SDUNI", "_SDSEC", "_SDELM"), DISTRICTS, strict=True)},
}
_LAYER = re.compile(rf"(BlockAssign_ST\d\d_[A-Z]{{2}})({'|'.join(LAYERS)})(?=\.txt(\.gz)?(::|$))")
_PARTS = dict(zip(BLOCK_COLUMNS, (slice(0, 2), slice(2, 5), slice(5, 11), slice(11, 15)), strict=True))


def is_layer(path: str) -> bool:
    """Return whether a path names a known layer, alone or in an archive."""
    return bool(_LAYER.search(path))


def layers(path: str) -> dict[str, str]:
    """Return the path of each layer in the folder of one of them, itself included, by layer.

    Raises Refused if the layer of places is missing.
    """
    by_layer = {}
    for layer in LAYERS:
        other = _LAYER.sub(rf"\g<1>{layer}", path)
        files, name = locate(other)
        if files.isfile(name):
            by_layer[layer] = other
    if PLACES not in by_layer:
        raise Refused(f"{path}: the layer {PLACES[1:]}, which lists every block, is not next to it")
    return by_layer


def header(path: str) -> list[str]:
    """Return the columns of the joined table."""
    return [*_PARTS, *(LAYERS[layer][1] for layer in layers(path))]


def read_assignment(path: str) -> pa.Table:
    """Return the blocks of a state, codes as text: those of the places' layer, with the codes of the other layers.

    Raises Refused if a file is not such a layer, BadGeography if a layer has a block twice or one that the places'
    layer lacks.
    """
    by_layer = layers(path)
    codes = {LAYERS[layer][1]: _read(file, LAYERS[layer][0]) for layer, file in by_layer.items()}
    blocks = codes["PLACEFP"].index
    if len(bad := np.flatnonzero(~blocks.str.fullmatch("[0-9]{15}"))):
        raise BadGeography(f"row {bad[0] + 1} names no block ({blocks[bad[0]]})")
    for name, layer in codes.items():
        if len(more := layer.index.difference(blocks)):
            raise BadGeography(f"block {more[0]} has {name} and is not in {by_layer[PLACES]}")
    parts = {name: blocks.str[part].to_numpy(object) for name, part in _PARTS.items()}
    return pa.table(parts | {name: layer.reindex(blocks).fillna("").to_numpy(object) for name, layer in codes.items()})


def _read(path: str, column: str) -> pd.Series:
    import pandas as pd

    try:
        table = open_table(path).read(("BLOCKID", column)).table
    except TableFault as fault:
        raise Refused(f"{path} is not a block assignment file with BLOCKID and {column}: {fault.args[1]}") from None
    codes = pd.Series(table[column].to_numpy(), pd.Index(table["BLOCKID"].to_numpy(), dtype=str))
    if codes.index.has_duplicates:
        raise BadGeography(f"block {codes.index[codes.index.duplicated()][0]} comes twice in {path}")
    return codes
