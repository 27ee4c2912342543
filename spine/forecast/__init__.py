"""Predict the errors of the TopDown Algorithm from its shares, before anything is measured.

The model has no fitted parameter. It needs the spine, the declared living quarters and a histogram of blocks that
stands in for the records: published or made up, never confidential, for shares that were chosen by confidential errors
would disclose them.

* `counts`: the counts that are predicted.
* `precision`: what a budget buys on each level.
* `division`: the errors that dividing a parent among its children adds; `units`: the same for occupied housing units.
* `tree`: how these errors pass down the spine, and add up in areas off the spine.
* `forecast`: all of it for one allocation.
* `search`: the least budget for a target, and the best shares; `surface`: the errors around them, for a page.
"""
