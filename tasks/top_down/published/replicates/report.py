"""replicates.csv, verdict.csv, replicate-counts.csv, and what a page shows of our runs next to replicates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privacy.analyses.replicates import STATISTICS
from tasks.pages.text_table import TextTable
from tasks.pages.words import PRODUCTS
from tasks.top_down.accuracy.entities import LEVELS
from tasks.top_down.accuracy.report import signed
from tasks.top_down.published.replicates.compare import Compared

COMPARED = {
    "count": "{of}",
    "level": "{place}",
    "counts": "{n:,}",
    "bias, ours": "{bias}",
    "theirs": "{their_bias}",
    "root mean square error, ours": "{rmse:.2f}",
    "theirs ": "{their_rmse:.2f}",
    "ratio": "{ratio}",
    "ours in their intervals": "{ours_within}",
    "theirs in ours": "{theirs_within}",
}


def write_comparison(out: Path, compared: Compared) -> dict[str, Any]:
    """Write replicates.csv, verdict.csv and replicate-counts.csv; return what the page shows of them."""
    compared.table.to_csv(out / "replicates.csv", index=False)
    compared.verdict.to_csv(out / "verdict.csv", index=False)
    compared.single.to_csv(out / "replicate-counts.csv", index=False)
    return {"compared": compared, "table": comparison_table(compared), "verdict": verdict_table(compared)}


def comparison_table(compared: Compared) -> TextTable:
    """Return our errors and those of the replicates, by count and level."""
    rows = compared.table.assign(
        of=compared.table["product"].map(PRODUCTS) + ": " + compared.table["quantity"],
        place=compared.table["level"].map(LEVELS),
    ).sort_values("of", kind="stable")
    for name in ("bias", "their_bias"):
        rows[name] = [signed(value) for value in rows[name]]
    for name in ("ours_within", "theirs_within"):
        rows[name] = [f"{value:.1%}" if value == value else "declared" for value in rows[name]]
    rows["ratio"] = [
        f"{ratio:.2f} ± {error:.2f}" if ratio == ratio else ""
        for ratio, error in zip(rows["ratio"], rows["ratio_error"], strict=True)
    ]
    title = f"{compared.runs} runs of ours and {compared.replicates} replicates"
    return TextTable.filled(title, COMPARED, rows.to_dict("records"), words=2)


def verdict_table(compared: Compared) -> TextTable:
    """Return the chances of the tests by exchange of runs, level by level."""
    rows = []
    for level, table in compared.verdict.groupby("level", sort=False):
        by = table.set_index("statistic")["adjusted"]
        counts = f"{table['counts'].iloc[0]:,}"
        rows.append([LEVELS[str(level)], counts, *(f"{by[name]:.4f}" for name in STATISTICS)])
    notes = [compared.sentence]
    if compared.incomplete:
        notes.append(f"Counts that only some replicates have, left out: {compared.incomplete:,}.")
    return TextTable("Chances by exchange of runs, after Holm", ["level", "counts", *STATISTICS], rows, notes)
