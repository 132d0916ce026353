"""Saving of tensors, independent of a framework: requests, schedules, files."""
