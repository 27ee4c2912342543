"""Read and validate the input: records, declared invariants and geography; exact histograms on the spine."""
