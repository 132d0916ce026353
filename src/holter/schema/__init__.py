"""The schema of recorded data: tables, metrics, phases and the spool's record."""
