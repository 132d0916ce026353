"""The parts of the page Performance."""
