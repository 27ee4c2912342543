"""The noise of a release: exact laws, certified sampling, addressable randomness, margins of error."""
