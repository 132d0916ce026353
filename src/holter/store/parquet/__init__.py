"""Write and read Parquet files: columns, encodings and pages."""
