"""Our own estimator: generalized least squares over the whole spine. It is not the program of 2020 (`spine.top_down`).

A parent is divided by the information (h, P) of its children, which combines their own noisy answers and those of
everything below them. Passes, bounds, kernel and rounding are the program's; blocks have nothing below them, so their
step is the program's too. This room imports `spine.top_down`, never the reverse.

The method is Kalman filtering and Rauch-Tung-Striebel smoothing in information form, on a tree instead of a time
series. The pass up (`pass_up`) filters: it returns the information of every geounit. The pass down smooths: `blue`
returns the best linear unbiased estimate and its standard errors; where counts must be non-negative integers, the
descent (`top_down.estimate_children`) takes its place. Information is computed from noisy answers, so it is public and
costs no budget.

    pass_up(plan, measure, level, first, last)     information of these geounits, and of all levels below except blocks
    pass_up_above(plan, measure, information)      of all levels above, from that of all geounits of one level
    TreeAnswers(plan, measure, known)              the answers of a descent; what `known` lacks is passed up again

A unit of work
    Each county is a task, `pass_up(plan, measure, level, county, county + 1)[0]`, with a result of 18 kB. The task of
    the roots joins them (`information_joined`), passes up (`pass_up_above`), and descends to the counties by
    `TreeAnswers` of the result; under a US root the states' parts take the place of the counties. Below a county,
    `below` repeats the county's pass up in memory, which asks `measure` for everything once more.
"""
