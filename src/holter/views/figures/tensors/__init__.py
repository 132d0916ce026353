"""Charts of saved tensors."""
