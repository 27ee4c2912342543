"""The stages of a run, one file a stage, named as the papers name them."""
