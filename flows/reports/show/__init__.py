"""`das show`: a release that one can look at, in the browser, in the terminal and as a copy of its pages."""
