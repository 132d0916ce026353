"""Stands in for `traincheck.instrumentor.tracer`."""

DISABLE_WRAPPER = False
