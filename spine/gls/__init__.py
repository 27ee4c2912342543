"""Our own estimator: generalized least squares over the whole spine. It is not the program of 2020 (`spine.top_down`).

A parent is divided by the information (h, P) of its children, which sums up their own noisy answers and those of
everything below them, with the program's passes, bounds, kernel and rounding; blocks have nothing below them, so their
step is the program's. This room imports `spine.top_down`; the reverse is never so.

The method is Kalman filtering and Rauch-Tung-Striebel smoothing in information form, on a tree in place of a time
series. The pass up (`pass_up`) filters: it gives the information of every geounit. The pass down smooths: `blue` for
the best linear unbiased estimate and its standard errors; the descent (`top_down.estimate_children`) in its place
where counts must be integers that are not negative. Information is made of noisy answers, so it is public and costs
no budget.

    pass_up(plan, measure, level, first, last)     information of these geounits, and of all levels below but the blocks
    pass_up_above(plan, measure, information)      of all levels above, from that of all geounits of one level
    TreeAnswers(plan, measure, known)              the answers of a descent; what is not in `known` is passed up again

A unit of work
    First a task a county, `pass_up(plan, measure, level, county, county + 1)[0]`: 18 kB to keep. The task of the roots
    joins them (`information_joined`), passes up (`pass_up_above`), and descends to the counties by `TreeAnswers` of the
    result; under a US root the states' parts take the place of the counties. Below a county, `below` repeats the
    pass up of the county in memory, which asks `measure` for everything once more.
"""
