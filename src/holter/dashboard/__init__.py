"""The report as live pages, and the same as JSON: served on this machine, to who has the token."""
