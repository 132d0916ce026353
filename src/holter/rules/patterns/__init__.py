"""What several rules share: series of losses, tensors, ranks and units."""
