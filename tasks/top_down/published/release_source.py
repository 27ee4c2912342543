"""The measurements of a das-flows release as a source: read `measurements/`, and validate every answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from privacy.noise.exact import parse_exact
from spine.geography import IntArray
from spine.hierarchy import common_denominator
from tasks.errors import Refused
from tasks.lifecycle.files import load_object, save_arrays, save_object
from tasks.lifecycle.run_directory import VALIDATED
from tasks.lifecycle.workers import Workers
from tasks.records.arrow import text
from tasks.releases.received import path_in
from tasks.top_down.blocks import Blocks, BlockSource
from tasks.top_down.published.answer_file import AnswerFile
from tasks.top_down.published.nmf.geounits import digits_above, spine_of
from tasks.top_down.published.source import (
    ORIGIN,
    Changes,
    PublishedSource,
    Read,
    new_answers,
    put_answers,
    read_level,
)
from tasks.top_down.release.design_file import (
    GEOUNITS_FOLDER,
    SETTINGS_FILE,
    UNREADABLE,
    DesignFile,
    read_blocks,
    reading,
)
from tasks.top_down.run_plan import ProductName
from tasks.top_down.source import PLANNED
from tasks.top_down.spines import build_spines, save_spine

RELEASE = "prepared/release"  # the folder of the measurements


@dataclass(frozen=True)
class ReleaseSource(PublishedSource):
    """The measurements of a release of das-flows."""

    def fill(self, product: str, state: str, level: str, folder: Path) -> Read:
        """Map and validate the answers of a level."""
        file = AnswerFile.of(self, load_object(self / RELEASE, Path), product, state, level)
        columns = self.columns(file.plan, level)
        new_answers(folder, len(file.shares), columns.values())
        for query, geounit, answers in file.all_answers():
            put_answers(folder, geounit, columns[query], answers, file.path)
        return [], None


@dataclass(frozen=True)
class BlockRelease(BlockSource, ReleaseSource):
    """The measurements of a release of the redistricting data."""


def read_into(
    source: BlockRelease, workers: Workers, described: DesignFile, changes: Changes, only: Sequence[str]
) -> None:
    """Read the measurements of a release into a directory: blocks, spines, then the validated answers.

    only: states to estimate separately, without the US level; empty for all. Raises Refused for faults.
    """
    digest = save_description(source, described, changes, only)
    if widths := described.widths:
        workers.map("spine", source, read_spine, [(*pair, widths[pair[0]]) for pair in source.product_states])
    else:
        build_spines(source, workers)
    if digest is not None and source.spine_digest() != digest:
        raise Refused(f"{described.folder}: the blocks and settings do not give the measured spine")
    workers.map("read answers", source, read_level, source.product_levels)


def save_description(source: BlockRelease, described: DesignFile, changes: Changes, only: Sequence[str]) -> str | None:
    """Save design and blocks; return the digest of the measured spines, if all of them are made."""
    folder, totals, validated = described.folder, described.totals, described.validated
    digest: str | None = described.spine_digest
    if only:
        digest = digest if set(only) == set(validated.states) else None  # it covers all spines together
        validated = replace(validated, states=tuple(only), nation=False)
    with reading(folder):
        parts = {state: read_blocks(folder, state) for state in validated.states}
    if not parts or any(totals.get(int(state), -1) < quarters[:, 1:].sum() for state, (_, quarters) in parts.items()):
        raise Refused(
            f"{folder / SETTINGS_FILE}: a state without a declared total of at least its facilities, or no state"
        )
    for state, (geography, quarters) in parts.items():
        save_object(source / f"prepared/blocks/{state}", Blocks(geography, quarters, totals))
    save_object(source / PLANNED, replace(described.design, measurements="none", **changes))
    save_object(source / RELEASE, folder.resolve())
    save_object(source / ORIGIN, described.origin)
    save_object(source / VALIDATED, validated)
    return digest


def read_spine(source: BlockRelease, product: ProductName, state: str, widths: tuple[int, ...]) -> None:
    """Save the spine of imported measurements, which is read from them, with its shares.

    widths: digits of geocodes by level.
    """
    folder = load_object(source / RELEASE, Path)
    path = path_in(folder, f"{GEOUNITS_FOLDER}/{product}/{state}.parquet")
    allocation = source.design.allocations[product]
    try:
        table = pq.read_table(path, columns=["block", "geocode"])
        number, blocks = table["block"].to_numpy(), np.array(table["geocode"].to_pylist(), f"S{widths[-1]}")
        if not np.array_equal(np.sort(number), np.arange(len(source.state(state).geography))):
            raise ValueError("blocks that are missing or repeated")
        codes = tuple(digits_above(blocks.view(np.uint8).reshape(len(blocks), -1), width) for width in widths)
        bare = spine_of(codes, number)
        _, denominator = common_denominator(list(allocation.levels.values()))
        shares = tuple(
            _shares(path_in(folder, f"{product}/{level}/{state}.parquet"), text(digits), denominator)
            for level, digits in zip(bare.levels, codes, strict=True)
        )
    except UNREADABLE as error:
        raise Refused(f"{path}: not the geounits of imported measurements ({type(error).__name__})") from None
    save_arrays(source.codes_folder(product, state), {str(level): digits for level, digits in enumerate(codes)})
    save_spine(source, product, state, replace(bare, shares=shares, denominator=denominator))


def _shares(path: Path, codes: pa.Array, denominator: int) -> IntArray:
    """Return the numerators of the shares of a level's geounits; 0 for unmeasured ones."""
    table = pq.read_table(path, columns=["geounit", "share"])
    place = pa.compute.index_in(table["geounit"].cast(pa.large_string()), value_set=codes)
    share = table["share"].cast(pa.string()).combine_chunks().dictionary_encode()
    words = [parse_exact(str(word)) * denominator for word in share.dictionary.to_pylist()]
    if any(word.denominator != 1 for word in words):
        raise ValueError("a share outside the design")
    found = np.zeros(len(codes), np.int64)
    found[place.to_numpy()] = np.array([word.numerator for word in words], np.int64)[share.indices.to_numpy()]
    return found
