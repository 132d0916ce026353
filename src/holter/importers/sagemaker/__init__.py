"""Files of SageMaker Debugger and SageMaker Profiler."""
