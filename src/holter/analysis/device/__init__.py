"""Accelerators: kernels, copies, idle time, critical path, memory and roofline."""
