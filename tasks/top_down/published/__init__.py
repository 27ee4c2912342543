"""What was published and is read again: noisy measurements and microdata."""
