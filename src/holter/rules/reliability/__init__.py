"""Rules about failures: hangs, full disks, hardware errors and missing checkpoints."""
