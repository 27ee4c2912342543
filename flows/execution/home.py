"""Where runs and the ledger live unless told otherwise."""

from __future__ import annotations

import os
from pathlib import Path


def state_home() -> Path:
    """Return `$XDG_STATE_HOME/das-flows`."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "das-flows"
