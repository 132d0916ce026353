"""Numbers and tensors of a training: reductions, parts of sharded tensors, scalars."""
