"""What was published and is read again: noisy measurements, microdata, least squares estimates, replicates."""
