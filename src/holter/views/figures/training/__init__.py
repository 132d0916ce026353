"""Charts of losses, learning rates and norms."""
