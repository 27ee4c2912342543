"""`das show`: a release in the browser, in the terminal and as a copy of its pages."""
