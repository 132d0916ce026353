"""Move records from the spool into the tables of the store."""
