"""smdebug's names for reading profiles, at the paths at which smdebug has them."""

from holter.compat.smdebug.profiler.algorithm_metrics_reader import (
    LocalAlgorithmMetricsReader,
    S3AlgorithmMetricsReader,
    TraceEvent,
)
from holter.compat.smdebug.profiler.system_metrics_reader import (
    LocalSystemMetricsReader,
    ProfilerSystemEvents,
    S3SystemMetricsReader,
)

__all__ = [
    "LocalAlgorithmMetricsReader",
    "LocalSystemMetricsReader",
    "ProfilerSystemEvents",
    "S3AlgorithmMetricsReader",
    "S3SystemMetricsReader",
    "TraceEvent",
]
