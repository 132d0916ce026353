"""System metrics: utilization, load, and readings brought together by time."""
