"""What of the tensors is saved, when, and how it gets out of the process; knows no framework."""
