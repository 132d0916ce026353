"""Built-in trainings for `holter demo`: plain scripts that need torch and know nothing of holter."""
