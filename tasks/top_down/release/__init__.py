"""Write a release: histograms, microdata, measurements, margins of error, manifest and report."""
