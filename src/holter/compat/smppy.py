"""`smppy` and `smprof` of SageMaker's low-level profiler, on holter's annotations and windows.

Change the import of a script, and nothing else: `from holter.compat import smppy`.
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING

from holter.recorder import session as _session
from holter.recorder.annotate import annotate, annotation_begin as _begin, annotation_end as _end
from holter.recorder.guard import tell

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Config", "Handle", "SMProfiler", "annotate", "annotation_begin", "annotation_end"]

OPTIONS = ("EnableCuda", "EnablePerf", "EnableForkFollow", "BucketCount", "BucketSizeMB", "Compression", "RecordFile")
"""Options of `Config().profiler`. `EnableCuda` "0" profiles nothing; the others say how upstream captures."""
