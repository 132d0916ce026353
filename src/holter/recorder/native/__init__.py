"""The recorder in C, and the loader of its compiled functions."""
