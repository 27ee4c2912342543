"""Published counts of blocks for comparison with the estimates: from a das-flows release, or P.L. 94-171 files."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privacy.tables.histogram import Count, sums
from spine.geography import IntArray
from spine.redistricting import MAJORITY_COUNTS
from tasks.errors import Refused
from tasks.geography.names import name_of_state
from tasks.records.block_codes import STATE_UNIT, short_codes
from tasks.releases.manifest import MANIFEST, read_manifest
from tasks.releases.received import NotOfRelease, path_in
from tasks.top_down.release.design_file import UNREADABLE
from tasks.top_down.run_plan import SCHEMAS

# Maps (product, state) to (blocks,) codes of 15 digits and (blocks, counts), of `columns_of` with the minority. Blocks
# without persons may be missing.
PublishedCounts = Callable[[str, str], tuple[IntArray, IntArray]]


def published_counts(source: str) -> PublishedCounts:
    """Return the counts of a release's folder, or of P.L. 94-171 files. Raises Refused for anything else."""
    if (Path(source) / MANIFEST).exists():
        if "NOT_PRIVATE" in _manifest(Path(source)):
            raise Refused(f"--published {source}: these are exact counts, made by das truth: never publish them")
        return lambda product, state: _of_release(Path(source), product, state)
    from tasks.geography.blocks.files import block_files  # imports pandas
    from tasks.geography.blocks.pl94 import is_geographic_header

    headers = [path for path in block_files(source) if is_geographic_header(path)]
    if not headers:
        raise Refused(f"--published {source}: neither a TopDown release nor P.L. 94-171 files (??2020.pl.zip)")
    read = lru_cache(maxsize=1)(partial(_read_pl94, headers))
    return lambda product, state: _of_pl94(source, *read(product), state)


def is_estimate(source: str) -> bool:
    """Return whether counts are an estimate by das-flows, not a publication."""
    return (Path(source) / MANIFEST).exists() and "ESTIMATE" in _manifest(Path(source))


def _manifest(release: Path) -> dict[str, Any]:
    try:
        return read_manifest(release)
    except NotOfRelease as fault:
        raise Refused(f"--published {release}: {fault}") from None


def _of_release(release: Path, product: str, state: str) -> tuple[IntArray, IntArray]:
    """Return the counts of a release's blocks; those of moved blocks (in water) are where the release's tables have
    them.
    """
    schema = SCHEMAS[product]
    if not (release / f"histograms/{product}/Block/{state}.parquet").exists():
        raise Refused(f"--published {release}: it has no {product} of state {state}, {name_of_state(state)}")
    try:
        moved = _manifest(release).get("source", {}).get("as_tabulated", {})
        table = pq.read_table(path_in(release, f"histograms/{product}/Block/{state}.parquet"))
        geounit = table["geounit"].combine_chunks()
        if not isinstance(geounit, pa.DictionaryArray):
            geounit = geounit.dictionary_encode()
        digits = [code[-16:] for code in geounit.dictionary.to_pylist()]
        code = np.array([int(moved.get(code, code)) for code in digits], np.int64)
        row, cell, count = geounit.indices.to_numpy(), table["cell"].to_numpy(), table["count"].to_numpy()
        counts = sums(row, cell, count, len(code), schema.matrix(_asked(product)))
    except NotOfRelease as fault:
        raise Refused(f"--published {release}: {fault}") from None
    except UNREADABLE as error:
        raise Refused(f"{release}: not the histograms of blocks ({type(error).__name__})") from None
    return short_codes(code), _with_minority(product, counts)


def _asked(product: str) -> tuple[Count, ...]:
    """Return the counts to look up: those of areas, with the majority in place of the minority."""
    return (*SCHEMAS[product].estimated, *(MAJORITY_COUNTS if product == "persons" else ()))


def _with_minority(product: str, counts: IntArray) -> IntArray:
    if product == "persons":
        counts[:, -2:] = counts[:, :2] - counts[:, -2:]  # of the total, and of voting age
    return counts


def _read_pl94(headers: list[str], product: str) -> tuple[IntArray, IntArray]:
    from tasks.geography.blocks.pl94 import read_block_counts

    schema = SCHEMAS[product]
    names = [schema.cells_like(count)[0] for count in _asked(product)]
    codes, counts = zip(*(read_block_counts(header, names) for header in headers), strict=True)
    return np.concatenate(codes), _with_minority(product, np.concatenate(counts))


def _of_pl94(source: str, codes: IntArray, counts: IntArray, state: str) -> tuple[IntArray, IntArray]:
    own = codes // STATE_UNIT == int(state)
    if not own.any():
        there = ", ".join(f"{code:02d}" for code in np.unique(codes // STATE_UNIT).tolist())
        raise Refused(f"--published {source}: it has no block of state {state}, only of {there}")
    return codes[own], counts[own]
