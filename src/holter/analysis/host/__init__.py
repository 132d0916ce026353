"""The host: operators, Python functions, waits and threads."""
