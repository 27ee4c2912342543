"""The fast reader of GRF-C: the workers parse a large file chunk by chunk by a compiled kernel.

Where the file is small or holds a fault it returns None, and the validating reader takes the file
(`grf_c.read_region_map`), which finds every fault and its line. Public.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.inputs.fast_records import RecordLayout, parse_text
from tasks.inputs.files import size_of
from tasks.inputs.grf_c import COLUMNS, BlockCodes
from tasks.inputs.record_fields import BLOCK_FIELDS, digits
from tasks.inputs.records import RecordFile, open_records, read_chunk
from tasks.lifecycle.digests import combine
from tasks.lifecycle.files import open_array, remove, save_arrays
from tasks.lifecycle.process import use_kernels
from tasks.lifecycle.run_directory import RunDirectory
from tasks.lifecycle.workers import Workers

MIN_BYTES = 1 << 25  # for fewer, a process would import numba for longer than it saves
FIELDS = {**BLOCK_FIELDS, "PLACEFP": digits(5, place=1), "AIANNHCE": digits(4, place=2)}


@dataclass(frozen=True)
class ParsedBlocks:
    """The blocks of a GRF-C each of whose values is valid by itself, in the file's order, and the file's digest."""

    codes: BlockCodes
    digest: str


def parse_blocks(run: RunDirectory, workers: Workers, path: str) -> ParsedBlocks | None:
    """Parse a GRF-C by its chunks of 64 MiB; None where it is small, not there or empty, or has a fault."""
    grf_c, _ = open_records(path, COLUMNS, more=True)
    if grf_c is None or size_of(path) < MIN_BYTES:
        return None
    folder, chunks = "prepared/blocks", range(grf_c.chunks)
    digests = workers.map("geography", run, encode_blocks, [(folder, grf_c, number) for number in chunks])
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


def encode_blocks(run: RunDirectory, folder: str, grf_c: RecordFile, number: int) -> str:
    """Write the blocks of one chunk, and return the chunk's digest; nothing and "" where a line has a fault."""
    use_kernels(run.state_folder)
    chunk = read_chunk(grf_c, number)
    parsed = parse_text(RecordLayout(FIELDS), grf_c.header, chunk.text or b"")
    if parsed is None:
        return ""
    block, place, area = parsed.numbers
    arrays = {"block": block, "place": place.astype(np.int32), "area": area.astype(np.int32)}
    save_arrays(run / f"{folder}/{number:05d}", arrays)
    return chunk.digest
