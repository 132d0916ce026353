"""The configuration classes of `sagemaker.debugger`, translated."""

from holter.compat.sagemaker.actions import SMS, ActionList, Email, StopTraining
from holter.compat.sagemaker.categories import (
    DataloaderProfilingConfig,
    DetailedProfilingConfig,
    HorovodProfilingConfig,
    PythonProfiler,
    PythonProfilingConfig,
    SMDataParallelProfilingConfig,
    cProfileTimer,
)
from holter.compat.sagemaker.hook import CollectionConfig, DebuggerHookConfig, TensorBoardOutputConfig
from holter.compat.sagemaker.profiling import FrameworkProfile, Profiler, ProfilerConfig

__all__ = [
    "SMS",
    "ActionList",
    "CollectionConfig",
    "DataloaderProfilingConfig",
    "DebuggerHookConfig",
    "DetailedProfilingConfig",
    "Email",
    "FrameworkProfile",
    "HorovodProfilingConfig",
    "Profiler",
    "ProfilerConfig",
    "PythonProfiler",
    "PythonProfilingConfig",
    "SMDataParallelProfilingConfig",
    "StopTraining",
    "TensorBoardOutputConfig",
    "cProfileTimer",
]
