"""Rules from outside of this package: a process of their own imports and evaluates them."""
