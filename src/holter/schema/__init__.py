"""What is recorded: tables, metrics, phases, and the spool's record; imports nothing of ours."""
