#!/usr/bin/env bash
# tumult-analytics 0.21.0: `max` answers with any number between the largest value and the bound, whatever the budget.
#
# Guess, written down first: `high` of max(column, low, high) limits what a record may contribute, and the answer comes
#   close to the largest value as the budget grows; with an infinite budget it is the largest value.
# Behaviour: each of 100 groups has the values 0 to 99. With an infinite budget the groups' maxima lie evenly between 99 and
#   `high`: 550 on average for a high of 1,000, 5,050 for 10,000. The answer is the quantile of 1 of the exponential
#   mechanism, for which all numbers above the largest value are equally good. quantile(.99) answers 98 to 99 for either.
#   min is its mirror: numbers between `low` and the smallest value.
# What to do: ask for a quantile short of 1 (or above 0 for min), or choose the bound from counts of ranges of the column.
# Needs Java 17, as Spark does. Fails where this changes: the chance that a run fails for its draws is below 1e-7.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check tmlt-analytics==0.21.0 tmlt-core==0.19.1 pyspark==3.5.9 numpy==1.26.4
cat > "$folder/largest.py" <<'PYTHON'
import os
import sys
import warnings

os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
warnings.simplefilter("ignore")
import pandas as pd  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session  # noqa: E402

GROUPS, VALUES = 100, 100
spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
rows = pd.DataFrame({"name": [str(i % GROUPS) for i in range(GROUPS * VALUES)], "x": [i // GROUPS for i in range(GROUPS * VALUES)]})
infinite = PureDPBudget(float("inf"))
session = Session.from_dataframe(infinite, "people", spark.createDataFrame(rows), AddOneRow())
groups = QueryBuilder("people").groupby(KeySet.from_dict({"name": [str(i) for i in range(GROUPS)]}))
for high in (1_000, 10_000):
    largest = session.evaluate(groups.max("x", 0, high, name="answer"), infinite).toPandas()["answer"]
    share = (largest - (VALUES - 1)) / (high - (VALUES - 1))  # of the way from the largest value to the bound
    even = 0 <= share.min() < 0.2 and 0.3 < share.mean() < 0.7 and 0.8 < share.max() <= 1
    print("high", high, "max", "anywhere between the largest value and the bound" if even else share.mean())
near = session.evaluate(groups.quantile("x", 0.99, 0, 10_000, name="answer"), infinite).toPandas()["answer"]
print("high 10000 quantile .99", "98 to 99" if near.between(98, 99).all() else near.mean())
PYTHON
seen=$(cd "$folder" && "$folder/env/bin/python" largest.py 2> log) || { cat "$folder/log"; exit 1; }
echo "$seen"
[ "$seen" = "high 1000 max anywhere between the largest value and the bound
high 10000 max anywhere between the largest value and the bound
high 10000 quantile .99 98 to 99" ] || { echo "this has changed"; exit 1; }
