"""The digest of a file in ledger, manifest and SYNTHETIC.json: SHA-256 over the SHA-256s of 64 MiB chunks.

Chunks begin at fixed offsets, so any number of workers can read and hash them in any order, and the parser of a chunk
digests the very bytes that it parses (docs/spec/files.md#digests).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from os import PathLike
from typing import IO

CHUNK_BYTES = 64 * 1024 * 1024
PIECE_BYTES = 1 << 20  # read at once
AT_ONCE = 4  # files that are digested together


def chunk_digest(*parts: bytes | bytearray | memoryview) -> bytes:
    """Return the SHA-256 of one chunk, 32 bytes, given whole or in parts.

    Every chunk of a file holds CHUNK_BYTES bytes except the last.
    """
    digest = sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


def combine(chunk_digests: Iterable[bytes]) -> str:
    """Return the file's digest in hexadecimal, from the digests of its chunks in order. An empty file has no chunk."""
    return sha256(b"".join(chunk_digests)).hexdigest()


def stream_digest(stream: IO[bytes]) -> str:
    """Digest the rest of a stream, whose reads may return fewer bytes than asked for. Raises OSError."""
    return combine(_chunks_of(stream))


def _chunks_of(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the digest of each chunk."""
    remaining = 0
    while remaining == 0:  # the chunk before was whole
        chunk, remaining = sha256(), CHUNK_BYTES
        while remaining and (data := stream.read(min(remaining, PIECE_BYTES))):
            chunk.update(data)
            remaining -= len(data)
        if remaining < CHUNK_BYTES:
            yield chunk.digest()


def file_digest(path: str | PathLike[str]) -> str:
    """Digest a local file. Raises OSError."""
    with open(path, "rb", buffering=0) as file:
        return stream_digest(file)


def file_digests(paths: Iterable[str | PathLike[str]]) -> list[str]:
    """Digest local files, some at a time. Raises OSError."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(file_digest, paths))
