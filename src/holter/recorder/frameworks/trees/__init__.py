"""What adapters of libraries of trees use: rounds as steps, and tensors of a model."""
