"""The configuration classes of `sagemaker.debugger`, translated."""
