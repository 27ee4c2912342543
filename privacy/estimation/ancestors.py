"""The ancestor test: a group that its state or county contradicts is left out of the estimates.

A county is part of its state, a tract of both, so N_g <= N_h for an ancestor h of the same iteration. Of the groups
that suppression lets pass most are small and some are empty; an empty one's estimate often exceeds its ancestor's by
more than noise explains. The test reads noisy estimates only.
"""

from __future__ import annotations

import numpy as np

from privacy.estimation.estimator import Estimator
from privacy.estimation.pooling import own_scale

FALSE_DROP = 0.00135  # P(X > 3 sd) of a normal law: the most with which a group that is there is dropped, per test


def critical_value(group: Estimator, ancestor: Estimator) -> int:
    """Return the smallest c with P(E_g - E_h > c) <= FALSE_DROP, E the errors away from thresholds; exact sums.

    A group is dropped where U_g - U_h > c. As N_g <= N_h, that happens to one that is there with this chance at most.
    """
    scale = max(own_scale(group.answers), own_scale(ancestor.answers))
    difference = np.convolve(group.error_law(scale), ancestor.error_law(scale))
    beyond = np.append(np.cumsum(difference[::-1])[::-1], 0.0)  # P(difference >= k)
    first = int(np.flatnonzero(beyond <= FALSE_DROP)[0]) - len(difference) // 2
    return scale * first - 1
