"""Whole jobs: cost, comparison, clock skew and stragglers."""
