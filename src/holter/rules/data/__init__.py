"""Rules about batches: inputs, labels and predictions."""
