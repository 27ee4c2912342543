"""Published counts of blocks beside the estimates: of a release of das-flows, or of P.L. 94-171 files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import scipy.sparse as sp

from spine.geography import IntArray
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.received import NotOfRelease, path_in
from tasks.top_down.gls.margin_tables import RACES, columns_of
from tasks.top_down.measure.description import UNREADABLE
from tasks.top_down.run_plan import ProductName

# (product, state, (blocks,) codes of 15 digits) to the (blocks, counts) published
Published = Callable[[ProductName, str, IntArray], IntArray]

_RACE_CELLS = (3, 4, 5, 6, 7, 8, 9)  # of P1 and P3: six races alone, two or more
PL94 = {
    "total": "P0010001",
    "voting age": "P0030001",
    "Hispanic": "P0020002",
    **{f"race: {race}": f"P00100{at:02d}" for race, at in zip(RACES, _RACE_CELLS, strict=True)},
    **{f"voting age by race: {race}": f"P00300{at:02d}" for race, at in zip(RACES, _RACE_CELLS, strict=True)},
    **{
        f"group quarters: type {kind}": f"P00500{at:02d}"
        for kind, at in zip(range(1, 8), (3, 4, 5, 6, 8, 9, 10), strict=True)
    },
    "occupied": "H0010002",
}


def published_counts(source: str) -> Published:
    """Return the counts of a release's folder, or of P.L. 94-171 files. Raises Refused where it is neither."""
    if (Path(source) / "manifest.json").exists():
        return lambda product, state, codes: _of_release(Path(source), product, state, codes)
    from tasks.inputs.blocks.files import block_files  # imports pandas
    from tasks.inputs.blocks.pl94 import is_geographic_header

    headers = [path for path in block_files(source) if is_geographic_header(path)]
    if not headers:
        raise Refused(f"--published {source}: neither a TopDown release nor P.L. 94-171 files (??2020.pl.zip)")
    return lambda product, state, codes: _of_pl94(headers, product, codes)


def _of_release(release: Path, product: ProductName, state: str, codes: IntArray) -> IntArray:
    columns = columns_of(product)
    try:
        table = pq.read_table(path_in(release, f"histograms/{product}/Block/{state}.parquet"))
        geounit = table["geounit"].combine_chunks()
        if not isinstance(geounit, pa.DictionaryArray):
            geounit = geounit.dictionary_encode()
        digits = pc.utf8_slice_codeunits(geounit.dictionary, -16).cast(pa.int64()).to_numpy()
        block, cell, count = geounit.indices.to_numpy(), table["cell"].to_numpy(), table["count"].to_numpy()
    except NotOfRelease as fault:
        raise Refused(f"--published {release}: {fault}") from None
    except UNREADABLE as error:
        raise Refused(f"{release}: no histograms of blocks ({type(error).__name__})") from None
    counts = sp.csr_array((count, (block, cell)), shape=(len(digits), len(columns.cells))) @ columns.cells
    return _in_order(digits // 10**5 * 10**4 + digits % 10**4, counts, codes)


def _of_pl94(headers: list[str], product: ProductName, codes: IntArray) -> IntArray:
    from tasks.inputs.blocks.pl94 import read_block_counts

    names = [PL94[name] for name in columns_of(product).names]
    parts = [read_block_counts(header, names) for header in headers]
    return _in_order(
        np.concatenate([code for code, _ in parts]), np.concatenate([counts for _, counts in parts]), codes
    )


def _in_order(published: IntArray, counts: IntArray, codes: IntArray) -> IntArray:
    """Return the counts of these blocks; 0 for a block that is not published."""
    order = np.argsort(published)
    row = np.minimum(np.searchsorted(published, codes, sorter=order), max(len(order) - 1, 0))
    found: IntArray = np.where((published[order[row]] == codes)[:, None], counts[order[row]], 0)
    return found
