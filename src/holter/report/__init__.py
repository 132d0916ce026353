"""A job as files that other programs show."""
