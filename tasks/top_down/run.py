"""The confidential directory of a TopDown run: where each stage writes, and later stages read, beyond a source's.

```
prepared/tables              the paths of the input
prepared/codes               all blocks of the geography                                        public
persons/PRODUCT/NUMBER       records of a chunk, counted by block and cell                      confidential
counts/PRODUCT/SS/blocks     exact histograms of a state's blocks, by geocode                   confidential
counts/PRODUCT/SS/LEVEL      exact histograms of a level, in spine order; SS is US above the states   confidential
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from spine.top_down.histogram import Histograms
from tasks.lifecycle.files import narrowest, open_array, save_arrays
from tasks.top_down.run_plan import Tables
from tasks.top_down.source import Source

H = TypeVar("H", bound=Histograms)


@dataclass(frozen=True)
class TopDownRun(Source):
    """A handle on a TopDown run: only the path of its directory, so that it may be shown and stored."""

    @property
    def tables(self) -> Tables:
        """Load the paths of the run's inputs."""
        return self._load("prepared/tables", Tables)

    def chunk_folder(self, product: str, number: int) -> Path:
        """Return the folder of a chunk's counted records; its report is next to it, with the suffix .json."""
        return self / f"persons/{product}/{number:05d}"

    def counts_folder(self, product: str, state: str, level: str) -> Path:
        """Return the folder of the exact histograms of a level."""
        return self / f"counts/{product}/{state}/{level}"


def save_histograms(folder: Path, histograms: Histograms) -> None:
    """Write histograms of neighbouring geounits in narrow types: counts are below 2^31."""
    save_arrays(
        folder,
        {
            "at": np.array([histograms.level, histograms.first]),
            "starts": histograms.starts,
            "cell": narrowest(histograms.cell),
            "count": histograms.count.astype(np.int32),
        },
    )


def load_histograms(folder: Path, kind: type[H], first: int = 0, last: int | None = None) -> H:
    """Read what `save_histograms` wrote, or its geounits first ... last - 1, counted from its own first."""
    level, start = open_array(folder, "at").tolist()
    starts = open_array(folder, "starts")
    last = len(starts) - 1 if last is None else last
    within = slice(int(starts[first]), int(starts[last]))
    return kind(
        level,
        start + first,
        np.asarray(starts[first : last + 1]) - within.start,
        open_array(folder, "cell")[within].astype(np.int64),
        open_array(folder, "count")[within].astype(np.int64),
    )
