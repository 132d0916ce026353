"""The timeline of a job as data: lanes, tiles, events and counters."""
