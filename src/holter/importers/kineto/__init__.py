"""Traces in Chrome's format: torch.profiler (Kineto), Ascend and others."""
