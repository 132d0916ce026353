"""Charts of system metrics, such as CPU, GPU, memory, disks and network."""
