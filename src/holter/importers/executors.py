"""Executors for work on many files: processes of this machine, or workers of a Ray or Dask cluster.

All have the interface `concurrent.futures.Executor`; holter schedules nothing itself. Workers of a
cluster need the files, the temporary folder, and holter in their environment.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")

VALID = "here, processes, processes:N, ray, ray://HOST:PORT, dask:ADDRESS"
_MOST_PROCESSES = 8
"""Each holds the rows and names of one file: some hundred megabytes."""
_RETRIES = 2


class UnknownExecutorError(ValueError):
    """There is no such executor here; the text says what is valid, or what must be installed."""


class LostTaskError(RuntimeError):
    """A task ended its worker twice, such as for lack of memory."""


def executor(on: str = "processes") -> Executor:
    """Return a new executor, which the caller shuts down.

    Args:
        on: `processes` or `processes:N`, `ray` (the cluster of `RAY_ADDRESS`, else one that Ray starts here),
            `ray://host:port`, or `dask:` and the address of a scheduler.

    Raises:
        UnknownExecutorError: It is not one of these, or its package is missing.
        ConnectionError: The cluster cannot be reached.
    """
    kind, _, rest = on.partition(":")
    if kind == "processes" and (not rest or (rest.isdecimal() and int(rest) > 0)):
        context = multiprocessing.get_context("spawn")  # threads of this process make forks unsafe
        return ProcessPoolExecutor(int(rest) if rest else processes(), mp_context=context)
    if kind == "ray" and (not rest or rest.startswith("//")):
        return RayExecutor(on if rest else None)
    if kind == "dask" and rest:
        return DaskExecutor(rest)
    raise UnknownExecutorError(f"--on {on!r} is not known; valid: {VALID}")


def processes() -> int:
    """Return how many processes are started without a number."""
    return max(1, min(len(os.sched_getaffinity(0)), _MOST_PROCESSES))


class RayExecutor(Executor):
    """Runs functions as tasks of a Ray cluster, which starts a task again if its worker or node is lost."""

    def __init__(self, address: str | None) -> None:
        """Connect to a cluster, or to the one of this process."""
        try:
            import ray
        except ImportError:
            raise UnknownExecutorError("--on ray needs the package ray: pip install ray") from None
        self._ray = ray
        self._own = not ray.is_initialized()
        if self._own:
            ray.init(address=address, log_to_driver=False, logging_level="error")

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task; arguments and result must pickle."""
        task = self._ray.remote(fn).options(max_retries=_RETRIES)
        future: Future[Any] = task.remote(*args, **kwargs).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster, if this executor joined it."""
        del wait, cancel_futures
        if self._own:
            self._ray.shutdown()


class DaskExecutor(Executor):
    """Runs functions as tasks of a Dask cluster, which starts a task again if its worker is lost."""

    def __init__(self, address: str) -> None:
        """Connect to the scheduler at an address."""
        try:
            from distributed import Client
        except ImportError:
            raise UnknownExecutorError(
                "--on dask needs the package distributed: pip install distributed"
            ) from None
        try:
            self._client = Client(address, timeout="20s")
        except OSError as error:
            raise ConnectionError(f"the scheduler at {address} cannot be reached: {error}") from None
        self._pool = self._client.get_executor(retries=_RETRIES)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task; arguments and result must pickle."""
        future: Future[Any] = self._pool.submit(fn, *args, **kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster. Without `wait`, Dask cancels the tasks that are not done."""
        del cancel_futures
        self._pool.shutdown(wait=wait)
        self._client.close()


def in_order(
    make: Callable[[], Executor], call: Callable[[T], R], items: Iterable[T], *, at_once: int
) -> Iterator[tuple[T, R | LostTaskError]]:
    """Call a function for each item, some at once, and yield the results in the order of the items.

    A pool of processes breaks when one of them dies. Then there is a new pool, in which the items that are
    not done begin again; the first of them, which may be the reason, alone. If it breaks the pool again, it
    is lost, and the others are not.

    Args:
        make: Makes an executor.
        call: Must pickle, as must items and results. What it raises is raised here.
        items: Taken one by one, so that no more than `at_once` results wait.
        at_once: Number of items that are worked on at once.
    """
    pool = make()
    waiting: deque[tuple[T, Future[R]]] = deque()
    try:
        for item in items:
            waiting.append((item, _submit(pool, call, item)))
            if len(waiting) < at_once:
                continue
            answer = _first(make, pool, call, waiting)
            pool = answer[0]
            yield answer[1]
        while waiting:
            rest = _first(make, pool, call, waiting)
            pool = rest[0]
            yield rest[1]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _submit(pool: Executor, call: Callable[[T], R], item: T) -> Future[R]:
    try:
        return pool.submit(call, item)
    except BrokenExecutor as error:  # noticed between two items
        failed: Future[R] = Future()
        failed.set_exception(error)
        return failed


def _first(
    make: Callable[[], Executor],
    pool: Executor,
    call: Callable[[T], R],
    waiting: deque[tuple[T, Future[R]]],
) -> tuple[Executor, tuple[T, R | LostTaskError]]:
    """Return the result of the item that waits longest, and the pool, a new one if it broke."""
    item, future = waiting.popleft()
    try:
        return pool, (item, future.result())
    except BrokenExecutor:
        pool.shutdown(wait=False, cancel_futures=True)
    found: R | LostTaskError
    pool = make()
    try:
        found = pool.submit(call, item).result()
    except BrokenExecutor as error:
        found = LostTaskError(f"its worker ended twice: {error}")
        pool.shutdown(wait=False, cancel_futures=True)
        pool = make()
    again = [one if one.done() and not one.exception() else _submit(pool, call, of) for of, one in waiting]
    for at, (of, _) in enumerate(list(waiting)):
        waiting[at] = of, again[at]
    return pool, (item, found)
