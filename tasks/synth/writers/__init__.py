"""The formats of a population: records of tracts as columns, as text or Parquet. Writers draw nothing."""
