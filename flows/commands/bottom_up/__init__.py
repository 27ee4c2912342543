"""`das bottom-up`: the two-tailed geometric mechanism on a histogram of all factors; marginals by addition."""
