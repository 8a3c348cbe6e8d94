"""Events, runs, findings and claims of a store as Parquet files, for DuckDB, Spark and notebooks."""
