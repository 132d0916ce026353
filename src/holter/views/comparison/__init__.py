"""Comparison of jobs: the differences between them."""
