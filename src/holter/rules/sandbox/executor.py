"""The sandbox for code of other packages and users: an executor with one process, which can be ended.

The interface is `concurrent.futures.Executor`: an evaluation submits functions and plain data, in order, and
uses one executor for each rule. `SandboxExecutor` starts a process on this machine; an executor of a cluster
with one worker can take its place.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import resource
import signal
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holter.schema.companions import own_command
from holter.schema.signals import signal_name

if TYPE_CHECKING:
    from collections.abc import Callable

_GRACE_S = 5.0
"""Without its parent, the process ends by itself so long after its time limit."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """The limits of code in a sandbox process."""

    soft_s: float = 2.0
    """A rule whose call takes longer is evaluated less often."""
    hard_s: float = 10.0
    """The process is ended when a call takes longer."""
    start_s: float = 60.0
    """The extra time of the first call, which imports modules."""
    memory_bytes: int = 256 * 2**20
    """Memory beyond that of a fresh process."""


class Died(RuntimeError):  # noqa: N818 - its text says what happened
    """The process ended during a call."""


class SandboxExecutor(Executor):
    """An executor with one process, started at the first call, that works through calls in their order."""

    def __init__(self, limits: ProcessLimits | None = None) -> None:
        self.limits = limits or ProcessLimits()
        self._calls: queue.SimpleQueue[tuple[Future[Any], bytes] | None] = queue.SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in the process; all data must pickle. The future may raise `Died`."""
        if self._thread is None:
            self._process = _start(self.limits)
            self._thread = threading.Thread(target=self._work, args=(self._process,), daemon=True)
            self._thread.start()
        future: Future[Any] = Future()
        self._calls.put((future, pickle.dumps((fn, args, kwargs), protocol=5)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the process: after its calls with `wait`, otherwise at once."""
        self._calls.put(None)
        if self._process is not None and (cancel_futures or not wait):
            self._process.kill()
        if self._thread is not None:
            self._thread.join()

    def _work(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        while (call := self._calls.get()) is not None:
            future, frame = call
            try:
                pickle.dump(frame, process.stdin, protocol=5)
                process.stdin.flush()
                fine, value = pickle.load(process.stdout)  # noqa: S301 - from our own process
            except Exception:
                process.kill()
                future.set_exception(Died(_ending(process.wait())))
                continue
            if fine:
                future.set_result(value)
            else:
                future.set_exception(value)
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.stdout.close()
        process.wait()


def _start(limits: ProcessLimits) -> subprocess.Popen[bytes]:
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    given = (str(limits.hard_s), str(limits.start_s), str(limits.memory_bytes))
    # A function of the user is found by its module's name, so the whole search path counts.
    command = own_command("holter.rules.sandbox", *given, path=filter(None, sys.path))
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **threads},
    )


def _ending(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    return f"its process was ended by {signal_name(-code)}"


def serve(hard_s: float, start_s: float, memory_bytes: int) -> None:
    """Make the calls that come on stdin, until it is closed."""
    answers = os.fdopen(os.dup(1), "wb")
    calls = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)  # prints of a rule must not mix with the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the evaluator handles a terminal's Ctrl-C
    import numpy  # noqa: F401 - counts as part of a fresh process

    soft = _data_bytes() + memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (soft, soft))
    allowed = start_s + hard_s
    while True:
        try:
            # Pickled data within pickled data, so that a call that does not load ends where it ends.
            frame = pickle.load(calls)  # noqa: S301 - from our own parent
        except EOFError:
            return
        # Without a parent to end this process, the timer does.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, allowed + _GRACE_S)
        try:
            fn, args, kwargs = pickle.loads(frame)  # noqa: S301 - from our own parent
            answer = (True, fn(*args, **kwargs))
        except (Exception, SystemExit) as error:
            answer = (False, RuntimeError(f"{type(error).__name__}: {error}"))
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(pickle.dumps(answer, protocol=5))
        answers.flush()
        allowed = hard_s


def _data_bytes() -> int:
    """Return the size of this process's private memory, as `RLIMIT_DATA` counts it."""
    with open("/proc/self/status") as status:
        sizes = dict(line.split(":", 1) for line in status)
    return int(sizes["VmData"].split()[0]) * 1024
