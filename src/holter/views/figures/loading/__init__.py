"""Charts of data loading."""
