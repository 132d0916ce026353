"""Recordings made by rule instead of by training: what they hold is known exactly."""
