"""Start the command, pass signals on, and notice deaths and hangs."""
