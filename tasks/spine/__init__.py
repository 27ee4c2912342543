"""The geographic spine of a run: from a block table to the directory of its optimized spine."""
