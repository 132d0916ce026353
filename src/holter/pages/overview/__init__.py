"""The parts of the page Overview."""
