"""Measures holter on a machine with a GPU: one function for each check, one table of all results."""
