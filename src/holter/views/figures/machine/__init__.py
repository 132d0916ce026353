"""Charts of system metrics."""
