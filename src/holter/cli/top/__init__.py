"""`holter top`: shows jobs in the terminal while they run."""
