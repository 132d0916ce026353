"""How a process beside the agent tells it that something went wrong: one line, which begins so."""

FAULT = "holter-fault: "
"""Then where, `: `, and what: the agent notes it as a fault of holter's, once."""
