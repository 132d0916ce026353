"""Serves jobs as live pages and as JSON on this machine, protected by a token."""
