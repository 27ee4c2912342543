"""report.html: the manifest as a page for a review board, with pictures of its noise and of its geounits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tasks.pages import render
from tasks.pages.charts import picture
from tasks.top_down.estimate.descent import load_estimates
from tasks.top_down.run import TopDownRun

SHOWN = {  # query groups drawn, of those that a level asks
    "persons": ("total", "hispanic*cenrace", "votingage*hispanic*cenrace", "detailed"),
    "units": ("detailed",),
}
COLOURS = ("#2f86d1", "#d58a1c", "#3aa76d", "#9b6fd0")


def write_report(run: TopDownRun, staged: Path, manifest: dict[str, Any]) -> None:
    """Write report.html from the manifest's content and the released histograms."""
    spent = manifest["spent"]
    html = render(
        "tasks.top_down.release",
        "report.html",
        manifest=manifest,
        charged=[*spent["products"].items(), ("together", spent["bounded"])] if spent else [],
        noise={name: noise_chart(name, facts) for name, facts in manifest["products"].items() if "noise" in facts},
        sizes=size_chart(run),
        deviations={name: _deviations(facts) for name, facts in manifest["products"].items() if "noise" in facts},
    )
    (staged / "report.html").write_text(html)


def _deviations(facts: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return the standard deviation of a coordinate by query group and level, at the level's largest share."""
    deviations: dict[str, dict[str, float]] = {}
    for row in facts["noise"]:  # shares ascend within a level
        deviations.setdefault(row["query"], {})[row["level"]] = row["variance"] ** 0.5
    return deviations


@picture
def noise_chart(product: str, facts: dict[str, Any]) -> Figure:
    """Draw the standard deviation of the noise by level, for some query groups."""
    deviations = _deviations(facts)
    levels = list(facts["geounits"])
    figure, axis = plt.subplots(figsize=(9, 3))
    for colour, query in zip(COLOURS, [name for name in SHOWN[product] if name in deviations], strict=False):
        at = [number for number, level in enumerate(levels) if level in deviations[query]]
        axis.plot(at, [deviations[query][levels[number]] for number in at], "o-", color=colour, label=query)
    axis.set_xticks(range(len(levels)), [level.replace("_", " ") for level in levels])
    axis.set(yscale="log", ylabel="standard deviation of the noise")
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


@picture
def size_chart(run: TopDownRun) -> Figure:
    """Draw how many released geounits of each level hold how many records, by powers of two."""
    products = run.design.products
    figure, axes = plt.subplots(1, len(products), figsize=(4.5 * len(products), 3), squeeze=False)
    for axis, product in zip(axes[0], products, strict=True):
        levels = run.spine(product, run.validated.states[0]).levels
        for colour, level in zip(COLOURS, levels[1:], strict=False):
            totals = np.concatenate(
                [load_estimates(run, product, state, level).totals() for state in run.validated.states]
            )
            powers = np.bincount(np.ceil(np.log2(totals[totals > 0])).astype(int))
            axis.step(2.0 ** np.arange(len(powers)), powers, where="mid", color=colour, label=level.replace("_", " "))
        axis.set(xscale="log", yscale="log", title=product, xlabel="records in a geounit, at most")
        axis.legend(fontsize=8)
    axes[0, 0].set_ylabel("geounits")
    return figure
