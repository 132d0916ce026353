"""Watches programs without a known framework from outside: processes, stacks, and what repeats."""
