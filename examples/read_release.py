"""Read a release: counts with names and 95% margins of error, as a pandas table.

python examples/read_release.py out/…/release/us "County, Detailed"
"""

import sys

import das_flows as das

release, level = sys.argv[1], sys.argv[2]
table = das.read_release(release, [level])
group = ["region", "region_id", "iteration"]

totals = table[table.sex.isna()].copy()  # the other rows are by sex, and by sex and age
totals["low"], totals["high"] = totals["count"] - totals.margin, totals["count"] + totals.margin
print(f"{level}: {len(totals)} groups; the largest, with the interval that holds 95% of the noise")
print(totals.nlargest(5, "count")[[*group, "count", "margin", "low", "high"]].to_string(index=False))

by_sex = table[table.sex.notna() & table.age_start.isna()]
women = by_sex[by_sex.sex == "female"].nlargest(5, "count")
print("\nWomen; the margin of a sum is the law of the sum, not the sum of margins")
print(women[[*group, "count", "margin"]].to_string(index=False))

ages = table[table.age_start.notna()].astype({"region": str, "iteration": str})
detail = ages.groupby(group).size().floordiv(2).value_counts()
print("\nGroups by the number of ages that their size earned:", detail.to_dict())
