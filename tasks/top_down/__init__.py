"""The TopDown Algorithm from files to release: persons and units of the redistricting product, by block, private."""
