"""Two sets of parameters of SafeTab-P, for the levels in which they differ: `das tune A --against B`."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from flows.reports.figures import near
from flows.reports.tuning.tuning import SHARE_MET, ages_from
from privacy.accounting.composition import read_spend
from tasks.errors import Refused
from tasks.releases.pages.text_table import TextTable
from tasks.safetab.persons.details import AGES_NAMES, FINEST

NONE = "–"  # a level that a set of parameters does not measure


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> TextTable:
    """Return the levels whose figures differ between the answers of two plans; `11 → 14` for a figure that differs.

    Raises Refused if one is in rho and the other in epsilon.
    """
    if first["unit"] != second["unit"]:
        raise Refused(
            f"{first['source']} is in {first['unit']}, {second['source']} in {second['unit']}: see das compare"
        )
    sides = [
        {level["level"]: _figures(level, first["unit"]) for level in one["levels"] if level["on"]}
        for one in (first, second)
    ]
    names = list(dict.fromkeys(name for side in sides for name in side))
    heads = list(dict.fromkeys(head for side in sides for figures in side.values() for head in figures))
    pairs = {name: [[side.get(name, {}).get(head, NONE) for side in sides] for head in heads] for name in names}
    rows = [
        [name, *(a if a == b else f"{a} → {b}" for a, b in found)]
        for name, found in pairs.items()
        if any(a != b for a, b in found)
    ]
    notes = [
        f"{len(names) - len(rows)} of {len(names)} levels are the same.",
        *([SHARE_MET] * ("relative" in first["target"])),
    ]
    for one in (first, second):
        row = read_spend(one["spent"]).rows(one["delta"])[0]
        notes.append(f"{one['source']}: the release spends, for {row.sentence}, {row.words}.")
    return TextTable(f"{first['source']} → {second['source']}", ["level", *heads], rows, notes)


def _figures(level: Mapping[str, Any], unit: str) -> dict[str, str]:
    """Return the figures of a level to compare, by column heading."""
    sizes = {f"size for {words}": level["sizes"][name] for name, words in AGES_NAMES.items()}
    ages = ages_from([level["ages_from"]]) if "ages_from" in level else {}
    return {
        unit: near(Fraction(level["budget"])),
        "stability": str(level["stability"]),
        "margin of a count": f"{level['margins']['count']:,}",
        f"margin of {AGES_NAMES[FINEST]}": f"{level['margins'][f'total_at_{FINEST}']:,}",
        **{name: "never" if size is None else f"{size:,}" for name, size in sizes.items()},
        "suppressed up to": f"{level['threshold']:,}" if level["suppressible"] else "never",
        **{name: texts[0] for name, texts in ages.items()},
    }
