"""smdebug's frames, statistics and merged timelines."""
