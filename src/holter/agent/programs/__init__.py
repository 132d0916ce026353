"""Watches programs without a known framework from outside: their processes, their stacks, and what repeats."""
