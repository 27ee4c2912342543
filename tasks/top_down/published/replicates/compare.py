"""Compare the errors of our runs with those of replicates: by level and count, and a verdict by exchange of runs.

Written as replicates.csv, verdict.csv and replicate-counts.csv, and shown on the page of errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from privacy.analyses.replicates import (
    LEVEL,
    STATISTICS,
    Sample,
    Spread,
    coverage,
    holm,
    least_chance,
    permutation_tests,
    ratio_of_rms,
)
from spine.geography import FloatArray
from tasks.lifecycle.workers import Workers
from tasks.pages.text_table import TextTable
from tasks.pages.words import PRODUCTS
from tasks.top_down.accuracy.errors import LEVELS, entities
from tasks.top_down.accuracy.report import signed
from tasks.top_down.published.replicates.read_replicates import load_counts
from tasks.top_down.run_plan import SCHEMAS, ProductName
from tasks.top_down.source import TopDownRun

IN_PART = ("tract", "cbg", "obg", "block")  # compared where states are run without the US level
SINGLE = ("state", "county", "tract", "place", "mcd", "aian")  # levels whose single counts are listed
SAMPLED = 1000  # counts of a level whose variances are compared
AT_ONCE = 4096  # entities
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


@dataclass(frozen=True)
class Compared:
    """What our runs and the replicates show. table: by product, level and quantity. verdict: by level and statistic.

    single: every count of larger levels. runs, replicates: how many there are. incomplete: how many counts only some of
    the replicates have; they are left out.
    """

    table: pd.DataFrame
    verdict: pd.DataFrame
    single: pd.DataFrame
    runs: int
    replicates: int
    incomplete: int
    nation: bool

    @property
    def least(self) -> float:
        """The least chance, after Holm, that so few runs can give."""
        return len(self.verdict) * least_chance(self.runs + self.replicates, self.runs)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if self.verdict.empty:
            levels = "" if self.nation else f" of the levels that are tested here ({', '.join(IN_PART)})"
            return (
                f"No verdict: no count{levels} is in every replicate and differs between runs, so nothing was tested."
            )
        if self.least >= LEVEL:
            few = f"{self.runs} runs of ours and {self.replicates} replicates are too few to tell them apart"
            return f"No verdict: {few} (take more --seeds)."
        found = "The two groups of runs differ" if self.differs else "No difference was found"
        return f"{found}, at a chance of {LEVEL:.0%} that a difference is found in two groups of one law."

    @property
    def differs(self) -> bool:
        """Whether the runs of the two groups do not have one law."""
        return bool((self.verdict["adjusted"] < LEVEL).any())


def compare_runs(run: TopDownRun, workers: Workers) -> Compared:
    """Compare our runs with the replicates, all states together."""
    parts = workers.map("compare replicates", run, compare_with_replicates, run.product_states)
    sums = pd.concat([table for table, *_ in parts])
    runs = int(sums["ours"].iloc[0])
    replicates = len(sums["squares"].iloc[0]) - runs
    samples: dict[str, Sample] = {}
    for _, found, *_ in parts:
        for level, sample in found.items():
            samples[level] = samples[level].joined(sample) if level in samples else sample
    nation = run.validated.nation
    tested = LEVELS if nation else IN_PART
    levels = [level for level in LEVELS if level in tested and level in samples and samples[level].counts]
    return Compared(
        table=pd.DataFrame(_rows(sums, runs)),
        verdict=_verdict({level: samples[level] for level in levels}, runs),
        single=pd.concat([single for _, _, single, _ in parts], ignore_index=True),
        runs=runs,
        replicates=replicates,
        incomplete=sum(incomplete for *_, incomplete in parts),
        nation=nation,
    )


def compare_with_replicates(
    run: TopDownRun, product: ProductName, state: str
) -> tuple[pd.DataFrame, dict[str, Sample], pd.DataFrame, int]:
    """Return of a state sums by level and quantity, the samples of its levels, its single counts, and how many counts
    only some of the replicates have.
    """
    names, quantities = np.array([(count.name, count.quantity) for count in SCHEMAS[product].estimated]).T
    sums, single = [], [pd.DataFrame()]
    samples: dict[str, Sample] = {}
    incomplete = 0
    for found in entities(run, product, state):
        truth, ours, theirs = load_counts(run, product, state, found.level)
        errors = np.concatenate([ours, theirs]) - truth
        there = np.asarray(~np.isnan(errors).any(axis=0))
        incomplete += int((~np.isnan(theirs).all(axis=0) & ~there).sum())
        for start in range(0, len(truth), AT_ONCE):
            rows = slice(start, start + AT_ONCE)
            for quantity in dict.fromkeys(quantities.tolist()):
                chosen = there[rows] & (quantities == quantity)
                if chosen.any():
                    part = _sums(truth[rows][chosen], errors[:, rows][:, chosen], len(ours))
                    sums.append({"product": product, "level": found.level, "quantity": quantity, **part})
            if there[rows].any():
                most = max(1, SAMPLED * AT_ONCE // (AT_ONCE + len(truth)))
                sample = Sample.of(errors[:, rows][:, there[rows]], most)
                samples[found.level] = samples[found.level].joined(sample) if start else sample
        if found.level in SINGLE and there.any():
            at, column = np.nonzero(there)
            codes = np.array(found.names())[at]
            counts = _single(truth[at, column], errors[:, at, column], len(ours))
            single.append(
                pd.DataFrame({"product": product, "level": found.level, "code": codes, "count": names[column]} | counts)
            )
    return pd.DataFrame(sums), samples, pd.concat(single, ignore_index=True), incomplete


def _sums(truth: FloatArray, errors: FloatArray, first: int) -> dict[str, object]:
    """Return sums over counts: by run of the error and its square, and how many lie in the others' intervals."""
    varying = (errors != 0).any(axis=0)  # declared counts have no error
    ours, theirs = errors[:first, varying], errors[first:, varying]
    return {
        "ours": first,
        "n": errors.shape[1],
        "varying": int(varying.sum()),
        "squares": (errors**2).sum(axis=1),
        "signed": errors.sum(axis=1),
        "ours_within": coverage(truth[varying], ours, Spread.of(theirs)),
        "theirs_within": coverage(truth[varying], theirs, Spread.of(ours)),
    }


def _rows(sums: pd.DataFrame, first: int) -> Iterator[dict[str, object]]:
    """Yield a row for each product, level and quantity."""
    for (product, level, quantity), part in sums.groupby(["product", "level", "quantity"], sort=False):
        n, varying = int(part["n"].sum()), int(part["varying"].sum())
        squares, signed = (np.sum(part[name].tolist(), axis=0) / n for name in ("squares", "signed"))
        ratio, error = ratio_of_rms(squares[:first], squares[first:])
        within = {
            name: part[name].sum() / (varying * number) if varying else np.nan
            for name, number in (("ours_within", first), ("theirs_within", len(squares) - first))
        }
        yield {
            "product": product,
            "level": level,
            "quantity": quantity,
            "n": n,
            "bias": signed[:first].mean(),
            "their_bias": signed[first:].mean(),
            "rmse": squares[:first].mean() ** 0.5,
            "their_rmse": squares[first:].mean() ** 0.5,
            "ratio": ratio,
            "ratio_error": error,
            **within,
        }


def _single(truth: FloatArray, errors: FloatArray, first: int) -> dict[str, FloatArray]:
    """Return bias and root mean square error of single counts in both groups, and how far they are apart."""
    ours, theirs = Spread.of(errors[:first]), Spread.of(errors[first:])
    apart = np.sqrt(ours.deviation**2 / first + theirs.deviation**2 / (len(errors) - first))
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "truth": truth,
            "bias": ours.bias,
            "their_bias": theirs.bias,
            "rmse": ours.rmse,
            "their_rmse": theirs.rmse,
            "difference_of_means": np.abs(ours.bias - theirs.bias) / apart,
            "log_ratio_of_rmse": np.log(theirs.rmse / ours.rmse),
        }


def _verdict(samples: dict[str, Sample], first: int) -> pd.DataFrame:
    """Return the tests of every level, with the chances adjusted for being several."""
    rows = []
    for level, sample in samples.items():
        found = permutation_tests(sample, first)
        rows += [(level, sample.counts, statistic, chance) for statistic, chance in found.items()]
    table = pd.DataFrame(rows, columns=["level", "counts", "statistic", "chance"])
    return table.assign(adjusted=holm(table["chance"].to_numpy()))


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
