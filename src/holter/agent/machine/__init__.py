"""Facts of the machine: processes, control groups, counters and the code that runs."""
