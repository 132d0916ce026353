"""The parts of a step: forward, loss, backward, optimizer and evaluation."""
