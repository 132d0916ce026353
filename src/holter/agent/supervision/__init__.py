"""Starts the command, passes signals on, and detects deaths and hangs."""
