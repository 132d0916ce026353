"""The names of the modes that users write, by their numbers in `phases.Mode`."""

MODES = ("global", "train", "eval", "predict")
