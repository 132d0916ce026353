"""Rules about the machine: processors, GPUs, memory, storage and network."""
