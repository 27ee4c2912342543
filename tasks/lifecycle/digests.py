"""The digest of a file, as ledger, manifest and SYNTHETIC.json know it: SHA-256 over the SHA-256s of 64 MiB chunks.

Chunks are cut at fixed offsets of the bytes, so they can be read and hashed by any number of workers in any order, and
whoever parses a chunk digests the very bytes that it parses (docs/spec/files.md#digests).
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from os import PathLike

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


def file_digest(path: str | PathLike[str]) -> str:
    """Digest a local file. Raises OSError."""
    digest, buffer = StreamDigest(), memoryview(bytearray(PIECE_BYTES))
    with open(path, "rb", buffering=0) as file:
        while read := file.readinto(buffer):
            digest.update(buffer[:read])
    return digest.hexdigest()


def file_digests(paths: Iterable[str | PathLike[str]]) -> list[str]:
    """Digest local files, some at a time. Raises OSError."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(file_digest, paths))


class StreamDigest:
    """The digest of a file while it is written: `update` with its bytes in order, in pieces of any size."""

    def __init__(self) -> None:
        self._done: list[bytes] = []
        self._chunk, self._held = sha256(), 0

    def update(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        rest = memoryview(data)
        while len(rest):
            piece, rest = rest[: CHUNK_BYTES - self._held], rest[CHUNK_BYTES - self._held :]
            self._chunk.update(piece)
            self._held += len(piece)
            if self._held == CHUNK_BYTES:
                self._done.append(self._chunk.digest())
                self._chunk, self._held = sha256(), 0

    def hexdigest(self) -> str:
        """Return the digest of what was written so far, as `file_digest` returns it."""
        return combine([*self._done, self._chunk.digest()] if self._held else self._done)
