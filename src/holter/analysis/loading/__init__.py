"""Data loading: waits for batches, workers and stages."""
