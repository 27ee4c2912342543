"""A publisher's Ed25519 signatures (RFC 8032) of acts in the ledger's journal and of manifests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


@dataclass(frozen=True)
class Signer:
    """A publisher who signs. publisher: the public key, in hexadecimal. sign: returns a signature, in hexadecimal."""

    publisher: str
    sign: Callable[[bytes], str]


@lru_cache(maxsize=4096)  # a command replays its journal after every act
def is_signed(publisher: str, content: bytes, signature: str) -> bool:
    """Return whether a publisher signed these bytes. Malformed keys and signatures return False."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(publisher)).verify(bytes.fromhex(signature), content)
    except (InvalidSignature, ValueError):
        return False
    return True
