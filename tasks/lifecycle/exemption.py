"""What a mark of synthetic data is worth: the one place that decides it, for every command.

A mark is a claim of whoever wrote it. It holds as long as the ledger does not contradict it: data that was charged for
is never synthetic, and data that was treated as synthetic, for which noise was drawn or exact counts were shown at no
charge, is never confidential again.
"""

from __future__ import annotations

from pathlib import Path

from privacy.accounting.ledger import Ledger, LedgerError, LedgerUnusable
from tasks.lifecycle.errors import Failed, Refused


def exempt(run_id: str, ledger: Path, *, marked: bool, input_digest: str, records_digest: str) -> bool:
    """Say whether a run's data is synthetic, so that nothing of it is charged or kept secret, and enter it as such.

    `marked` says that a mark beside the data covers these very files (tasks/inputs/synthetic_mark.py); the digests are
    those of all that was read and of the file of records alone. A ledger is made where marked data finds none.

    Raises
    ------
    Refused
        where the ledger contradicts the mark, or its absence.
    Failed
        where the ledger cannot be read or written now.
    """
    book = Ledger(ledger)
    try:
        if marked:
            book.enter_synthetic(run_id, input_digest, records_digest)
        elif ledger.exists():
            book.check_confidential(input_digest, records_digest)
    except LedgerUnusable as error:
        raise Failed(f"budget check: {error}") from None
    except LedgerError as error:
        raise Refused(str(error)) from None
    return marked
