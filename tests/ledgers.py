"""Ledgers edited by someone who may write the database and its journal."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privacy.accounting.ledger import Ledger
from privacy.accounting.signatures import Signer

Act = dict[str, Any]


def new_signer() -> Signer:
    """A publisher of its own."""
    key = Ed25519PrivateKey.generate()
    return Signer(key.public_key().public_bytes_raw().hex(), lambda content: key.sign(content).hex())


def rewrite(ledger: Ledger, edit: Callable[[Act], Any]) -> None:
    """Edit every act: chain, journal and file agree."""
    before = ledger.journal.read_text().splitlines()
    after: list[str] = []
    for line in before:
        act = json.loads(line)
        edit(act)
        act["previous"] = digest_of(after[-1]) if after else None
        after.append(json.dumps(act, separators=(",", ":")))
    with closing(sqlite3.connect(ledger.path)) as database:
        triggers = database.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            database.execute(f"DROP TRIGGER {name}")
        for number, new in enumerate(after, 1):
            database.execute("UPDATE journal SET line = ? WHERE number = ?", (new, number))
        for _, sql in triggers:
            database.execute(sql)
        database.commit()
    ledger.journal.write_text("".join(f"{line}\n" for line in after))


def digest_of(line: str) -> str:
    return sha256(line.encode()).hexdigest()
