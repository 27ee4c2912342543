"""A run's secret, the keys of its queries and their keystreams: every random word has an address.

The words come from a cipher, so the guarantee is computational: without the secret, no known attack on AES-256 or
HKDF-SHA256 distinguishes them from uniform words.
"""

import hashlib
import os
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

# Goes up whenever the same secret would give other noise: a run that began under another version is refused.
NOISE_SCHEME_VERSION: int = 2

KEY_BYTES = 32
_LIMIT = 1 << 63  # words of a stream


class RunSecret:
    """The 256 bits from which all noise of one run follows. It has no printed form and cannot be pickled."""

    __slots__ = ("__key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a run secret has 32 bytes, not {len(key)}")
        self.__key = bytes(key)

    @classmethod
    def generate(cls) -> "RunSecret":
        """Return a new secret from the operating system."""
        return cls(os.urandom(KEY_BYTES))

    def expose(self) -> bytes:
        """Return the 32 bytes. Only key derivation and the file in the confidential directory may use them."""
        return self.__key

    def digest(self) -> str:
        """Return the hex SHA-256 of a label and the secret: it identifies the secret in a ledger row."""
        return hashlib.sha256(_joined("das-flows", "run secret digest") + self.__key).hexdigest()

    def __repr__(self) -> str:
        return "RunSecret(hidden)"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a run secret cannot be pickled: read it from the run's confidential directory where it is needed"
        )


def query_key(
    secret: RunSecret,
    *,
    input_digest: str,
    configuration_digest: str,
    query: str,
    width: int = 1,
    purpose: str = "noise",
    version: int = NOISE_SCHEME_VERSION,
) -> bytes:
    """Return the 256-bit key of a query's stream, by HKDF-SHA256 from the run's secret.

    It is bound to the inputs, the configuration, the noise-scheme version, the query's name, the number of cells of a
    row (so that word width*i + j names one cell) and the purpose of the words: "noise", "refinement" or "estimates".
    """
    info = _joined("das-flows", str(version), purpose, input_digest, configuration_digest, query, str(width))
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret.expose())


def _joined(*fields: str) -> bytes:
    """Concatenate fields, each preceded by its length in 8 bytes: no two lists of fields give the same bytes."""
    encoded = [field.encode() for field in fields]
    return b"".join(len(field).to_bytes(8, "big") + field for field in encoded)


class Keystream:
    """Uniform 64-bit words by AES-256 in counter mode, each at its address.

    Block b of the stream is the encryption of the 16 bytes nonce, b (8 each, big-endian); word i is the half i mod 2 of
    block i // 2, read little-endian. `words(0, n)` is thus counter mode from the counter block (nonce, 0).
    """

    __slots__ = ("_aes", "_nonce")

    def __init__(self, key: bytes, nonce: int = 0) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a keystream's key has 32 bytes, not {len(key)}")
        if not 0 <= nonce < 1 << 64:
            raise ValueError("a keystream's nonce is a number from 0 to 2^64 - 1")
        self._aes = algorithms.AES(key)
        self._nonce = nonce.to_bytes(8, "big")

    def words(self, start: int, count: int) -> NDArray[np.uint64]:
        """Return words start, ..., start + count - 1."""
        if start < 0 or count < 0 or start + count > _LIMIT:
            raise ValueError("a keystream has words 0 to 2^63 - 1")
        block, offset = divmod(start, 2)
        counter = modes.CTR(self._nonce + block.to_bytes(8, "big"))
        stream = Cipher(self._aes, counter).encryptor().update(bytes(8 * (offset + count)))
        return _as_words(stream)[offset:]

    def rows(self, rows: NDArray[np.int64], width: int, stop: int | None = None) -> NDArray[np.uint64]:
        """Return uint64[len(rows), stop]: words width*i + j, 0 <= j < stop, for each row number i, in any order.

        stop: the width if omitted.
        """
        stop = width if stop is None else stop
        if not 1 <= stop <= width:
            raise ValueError("a row has at least one word, and no more than its width")
        if len(rows) == 0:
            return np.empty((0, stop), np.uint64)
        if int(rows.min()) < 0 or (int(rows.max()) + 1) * width > _LIMIT:
            raise ValueError("a keystream has words 0 to 2^63 - 1")
        start = rows.astype(np.int64, casting="safe") * width
        # At an even width rows start with a block; at an odd one they may start with its second half.
        blocks = (start >> 1)[:, None] + np.arange(stop // 2 + 1 if width % 2 else (stop + 1) // 2)
        counters = np.empty((*blocks.shape, 2), ">u8")
        counters[..., 0] = int.from_bytes(self._nonce, "big")
        counters[..., 1] = blocks
        stream = Cipher(self._aes, modes.ECB()).encryptor().update(counters.data.cast("B"))
        words = _as_words(stream).reshape(len(rows), -1)
        if width % 2 == 0:
            return words[:, :stop]
        cut, odd = words[:, :stop].copy(), np.flatnonzero(start & 1)
        cut[odd] = words[odd, 1 : stop + 1]
        return cut


def _as_words(stream: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(stream, "<u8").astype(np.uint64, copy=False)
