"""Record inside the training process: standard library only, nothing that can stop the training."""

import os
import time

PID = os.getpid()
STARTED_NS = time.perf_counter_ns()
"""When the recorder was loaded, monotonic ns; near the start of a process that has the bootstrap."""
