"""smdebug's charts for notebooks, and its job."""
