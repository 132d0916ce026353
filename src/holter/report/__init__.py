"""Reports, exports and pushes: a job in the formats of other programs."""
