"""Where a job is kept: a folder or a prefix of immutable Parquet files and a few small JSON documents."""
