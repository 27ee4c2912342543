"""The geographic spine of the TopDown Algorithm: build, measure, optimize."""
