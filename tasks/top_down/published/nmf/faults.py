"""Faults of published files, by file and rule: how many rows, and the first geocode."""

from __future__ import annotations

from collections.abc import Iterable

from tasks.records.findings import Finding
from tasks.top_down.run_plan import US


class Faults:
    """Collect the faults of a piece of work."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, bool], tuple[int, str | None]] = {}

    def add(
        self, file: str, rule: str, geocodes: Iterable[bytes | str] | None = None, *, warning: bool = False
    ) -> None:
        """Add a fault of a file, or of the rows with these geocodes; do nothing without geocodes."""
        named = None if geocodes is None else [_text(geocode) for geocode in geocodes]
        if named == []:
            return
        rows, first = self._found.get((file, rule, warning), (0, None))
        firsts = [code for code in (first, *(named or ())) if code is not None]
        self._found[file, rule, warning] = rows + (1 if named is None else len(named)), min(firsts, default=None)

    def note(self, file: str, rule: str) -> None:
        """Add a note, which is not an error."""
        self.add(file, rule, warning=True)

    def findings(self) -> list[Finding]:
        """Return one finding per file and rule, which names the smallest geocode at fault."""
        return [
            Finding(file, rule if first is None else f"{rule}: geocode {first or US}", "", rows, warning=warning)
            for (file, rule, warning), (rows, first) in self._found.items()
        ]


def _text(geocode: bytes | str) -> str:
    text = geocode.decode("utf-8", "replace") if isinstance(geocode, bytes) else geocode
    return text[:40] if text.isprintable() else ascii(text[:40])  # a message is one line
