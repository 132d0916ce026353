"""Computes numbers from tables with pure functions, without access to files."""
