"""Stands in for `gym`, which has no release for this Python's numpy."""

from gymnasium import *  # noqa: F403
