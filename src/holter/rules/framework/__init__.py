"""Rules about the speed of training steps."""
