"""The Detailed DHC-A: the stages of SafeTab-P by the paper's names, its truth and its accuracy."""
