"""The fast reader of GRF-C: the workers parse a large file chunk by chunk by a compiled kernel.

Where the file is small or holds a fault it returns None, and the validating reader takes the file
(`grf_c.read_region_map`), which finds every fault and its line. Public.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.inputs.block_codes import BLOCK_FACTORS
from tasks.inputs.files import read_lines, size_of
from tasks.inputs.grf_c import COLUMNS, WIDTHS, BlockCodes
from tasks.inputs.records import read_header
from tasks.inputs.tables import check_header
from tasks.lifecycle.digests import CHUNK_BYTES, combine
from tasks.lifecycle.files import open_array, remove, save_arrays
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers

FEWEST_BYTES = 1 << 25  # for fewer, a process would import numba for longer than it saves
SHORTEST_LINE = 30  # bytes, its end included


@dataclass(frozen=True)
class ParsedBlocks:
    """The blocks of a GRF-C each of whose values is valid by itself, in the file's order, and the file's digest."""

    codes: BlockCodes
    digest: str


def parse_blocks(run: RunDirectory, workers: Workers, path: str) -> ParsedBlocks | None:
    """Parse a GRF-C by its chunks of 64 MiB; None where it is small, not there or empty, or has a fault."""
    try:
        size = size_of(path)
        if size < FEWEST_BYTES:
            return None
        header = read_header(path)
    except OSError:  # the validating reader says so
        return None
    if check_header(path, header, COLUMNS, more=True):
        return None
    folder, chunks = "prepared/blocks", range(-(-size // CHUNK_BYTES))
    calls = [(folder, path, tuple(header), number) for number in chunks]
    digests = workers.map("geography", run, encode_blocks, calls)
    try:
        if not all(digests):
            return None
        parts = [run / f"{folder}/{number:05d}" for number in chunks]
        codes = BlockCodes(
            *(np.concatenate([open_array(part, name) for part in parts]) for name in ("block", "place", "area"))
        )
    finally:
        remove(run / folder)
    return ParsedBlocks(codes, combine(bytes.fromhex(digest) for digest in digests)) if len(codes.block) else None


def encode_blocks(run: RunDirectory, folder: str, path: str, header: tuple[str, ...], number: int) -> str:
    """Write the blocks of one chunk, and return the chunk's digest; nothing and "" where a line has a fault."""
    use_kernels(run.state_folder)
    from tasks.inputs.compiled_blocks import read_lines_of_blocks

    lines = read_lines(path, number, CHUNK_BYTES)
    most = len(lines.body) // SHORTEST_LINE + 1
    block, place, area = np.empty(most, np.int64), np.empty(most, np.int32), np.empty(most, np.int32)
    rows = read_lines_of_blocks(np.frombuffer(lines.body, np.uint8), _fields(header), block, place, area)
    if rows < 0:
        return ""
    save_arrays(run / f"{folder}/{number:05d}", {"block": block[:rows], "place": place[:rows], "area": area[:rows]})
    return lines.digest


def _fields(header: tuple[str, ...]) -> NDArray[np.int64]:
    """(what it belongs to, digits, what they are multiplied by) of each field, as `read_lines_of_blocks` takes them."""
    from tasks.inputs.compiled_blocks import AREA, BLOCK, PLACE, UNREAD

    belongs = {**dict.fromkeys(BLOCK_FACTORS, BLOCK), "PLACEFP": PLACE, "AIANNHCE": AREA}
    digits = dict(zip(COLUMNS, WIDTHS, strict=True))
    return np.array(
        [(belongs.get(name, UNREAD), digits.get(name, 0), BLOCK_FACTORS.get(name, 0)) for name in header], np.int64
    )
