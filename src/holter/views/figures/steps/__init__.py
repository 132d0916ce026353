"""Charts of steps and phases."""
