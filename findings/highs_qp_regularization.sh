#!/usr/bin/env bash
# HiGHS 1.15.1, quadratic programs: an optimal least-squares solution is hundreds of persons from the optimum.
#
# Guess, written down first: HiGHS solves convex quadratic programs, so where its status is Optimal the solution is the least
#   squares one within the feasibility tolerances (1e-7), whatever the unit of the objective.
# Behaviour: 1e-7 is added to the diagonal of the Hessian (option qp_regularization_value) and never removed (issue 2383 of
#   its repository), as if every unknown had also been measured as 0 with a variance of 10,000,000. Two counties are measured
#   as 800,000 and 150,000 with a standard deviation of 100, their sum is known to be 900,000, and weights are 1/variance:
#   the optimum is 775,000 and 125,000. HiGHS answers 774,675 and 125,325, three standard deviations away, status Optimal.
#   With a standard deviation of 10 it misses by 3 persons, of 1 by less than a tenth.
# What to do: set qp_regularization_value to 0.
# Fails where this changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check highspy==1.15.1 numpy==2.4.6
cat > "$folder/counties.py" <<'PYTHON'
import highspy
import numpy as np

MEASURED, TOTAL = np.array([800_000.0, 150_000.0]), 900_000.0


def estimate(deviation, **options):
    """Minimize the sum of (x - MEASURED)^2 / 2 deviation^2 over x >= 0 whose sum is TOTAL."""
    solver = highspy.Highs()
    solver.silent()
    for name, value in options.items():
        solver.setOptionValue(name, value)
    model, weights = highspy.HighsModel(), np.full(2, deviation**-2.0)
    model.lp_.num_col_, model.lp_.num_row_ = 2, 1
    model.lp_.col_cost_ = -weights * MEASURED
    model.lp_.col_lower_, model.lp_.col_upper_ = np.zeros(2), np.full(2, highspy.kHighsInf)
    model.lp_.row_lower_ = model.lp_.row_upper_ = np.array([TOTAL])
    model.lp_.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.lp_.a_matrix_.start_, model.lp_.a_matrix_.index_, model.lp_.a_matrix_.value_ = [0, 2], [0, 1], np.ones(2)
    model.hessian_.dim_, model.hessian_.format_ = 2, highspy.HessianFormat.kTriangular
    model.hessian_.start_, model.hessian_.index_, model.hessian_.value_ = [0, 1, 2], [0, 1], weights
    solver.passModel(model)
    solver.run()
    return solver.modelStatusToString(solver.getModelStatus()), *(f"{x:.1f}" for x in solver.getSolution().col_value)


for deviation in (1, 10, 100):
    print(deviation, *estimate(deviation), "without:", *estimate(deviation, qp_regularization_value=0.0))
PYTHON
seen=$("$folder/env/bin/python" "$folder/counties.py")
echo "$seen"
[ "$seen" = "1 Optimal 775000.0 125000.0 without: Optimal 775000.0 125000.0
10 Optimal 774996.8 125003.2 without: Optimal 775000.0 125000.0
100 Optimal 774675.3 125324.7 without: Optimal 775000.0 125000.0" ] || { echo "this has changed"; exit 1; }
