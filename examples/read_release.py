"""Read a release: counts with their 95% margins of error, as pandas tables.

python examples/read_release.py out/…/release/us county-1
"""

import sys
from pathlib import Path

import pandas as pd

from tasks.lifecycle.manifest import read_manifest
from tasks.lifecycle.received import path_in  # no link in a release from somebody else is followed

release, level = Path(sys.argv[1]), sys.argv[2]
group = ["REGION_ID", "REGION_TYPE", "ITERATION_CODE"]

manifest = read_manifest(release)
spent = manifest["spent"]
print(f"run {manifest['run']}, {spent['unit']} {spent['unbounded']['decimal']:g}", manifest.get("SYNTHETIC", ""))

totals = pd.read_parquet(path_in(release, f"parquet/t1/{level}.parquet"))
totals["LOW"], totals["HIGH"] = totals.COUNT - totals.MOE, totals.COUNT + totals.MOE
print(f"\nTotals: {len(totals)} groups; the largest, with the interval that holds 95% of the noise")
print(totals.nlargest(5, "COUNT").to_string(index=False))

cells = pd.read_parquet(path_in(release, f"parquet/t2/{level}.parquet"))
by_sex = cells[cells.AGESTART == "*"].pivot(index=group, columns="SEX", values=["COUNT", "MOE"])
print("\nBy sex (1 male, 2 female); the margin of a sum is the law of the sum, not the sum of margins")
print(by_sex.nlargest(5, ("COUNT", "1")).to_string())

ages = cells[cells.AGESTART != "*"]
detail = ages.groupby(group).size().floordiv(2).value_counts()
print("\nGroups by the number of age bins that their size earned:", detail.to_dict())
