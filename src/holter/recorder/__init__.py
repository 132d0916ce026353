"""Record inside the training process: standard library only, nothing that can stop the training."""
