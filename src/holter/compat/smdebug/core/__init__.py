"""smdebug's names of modes, steps and tensors, at the paths at which smdebug has them."""
