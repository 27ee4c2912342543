"""The TopDown Algorithm of wide tables, such as the persons of the DHC, of which few answers are read.

`spine.top_down` holds all answers of a geounit; here a run asks for those at the cells that its parent has. A release's
counts divide every parent into transportation problems (`transport`), which is why the least squares is solved by the
dual in its few small sums (`dual`), and why its integers are found one problem at a time (`rounding`).

    plan            the passes of a declaration        least_squares       one pass of one parent: what it reads
    estimate        from the top of the spine down     transport, dual     its kernels
    switches        counts that cross the known sums   undecided           what a parent leaves to decide
"""
