"""Samples the stack of the thread that trains, of whatever framework: the loop's own code."""
