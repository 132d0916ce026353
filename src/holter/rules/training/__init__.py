"""Rules about learning: losses, gradients, updates and weights."""
