"""Compute: pure functions from tables to tables and plain values; nothing here touches a file."""
