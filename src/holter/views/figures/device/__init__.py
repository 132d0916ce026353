"""Charts of accelerators and kernels."""
