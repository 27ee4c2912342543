"""A publisher's signature: Ed25519 (RFC 8032) over the bytes of a manifest, or of an act in the ledger's journal.

The keys are PEM files, as `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` write them. A private key
stays in its file: settings hold its path.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from privacy.accounting.journal import Sign
from tasks.lifecycle.errors import Refused


def signer(key: Path) -> Sign:
    """Return the function that signs with a private key, in hexadecimal; the same bytes get the same signature.

    Raises Refused where the file is no unencrypted private key of Ed25519. The message holds nothing of it.
    """
    try:
        private = load_pem_private_key(key.read_bytes(), password=None)
    except OSError as error:
        raise Refused(f"--sign {key}: {error.strerror}") from None
    except Exception:  # what the library says may quote the key
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise Refused(f"--sign {key}: it is no private key of Ed25519 in PEM without a passphrase")
    return lambda content: private.sign(content).hex()


def verifier(publisher: Path) -> Callable[[bytes, str], bool]:
    """Return the function that says whether a signature of bytes is a publisher's, by the public key in a file.

    Raises Refused where the file is no public key of Ed25519.
    """
    try:
        public = load_pem_public_key(publisher.read_bytes())
    except OSError as error:
        raise Refused(f"--publisher {publisher}: {error.strerror}") from None
    except Exception:
        public = None
    if not isinstance(public, Ed25519PublicKey):
        raise Refused(f"--publisher {publisher}: it is no public key of Ed25519 in PEM")

    def is_signed(content: bytes, signature: str) -> bool:
        try:
            public.verify(bytes.fromhex(signature), content)
        except (InvalidSignature, ValueError):
            return False
        return True

    return is_signed
