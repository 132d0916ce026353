"""Levels of detail of a timeline: how events become pixels."""
