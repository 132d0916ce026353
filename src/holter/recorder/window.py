"""Starts and stops profiling windows: those that are requested, and the one that runs."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from holter.recorder import rank
from holter.recorder.profilers import Later, Profiler, ProfilerUnavailable, make
from holter.recorder.profiling_window import PendingWindow, ProfilingWindow, WindowSession, resolved
from holter.recorder.spool.files import create
from holter.schema import windows as page
from holter.schema.dividing import FREE, divided

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.look import Look
    from holter.recorder.profilers import Found


_PATIENCE_S = 30.0


class _Run(NamedTuple):
    """A window that has begun."""

    window: ProfilingWindow
    profiler: Profiler
    order: str
    bounds: list[int]
    """When its steps began, monotonic ns."""

    def extend(self, step: int, now: int) -> None:
        """Add the begin of `step`; steps that ran in one call divide its time evenly."""
        before, number = self.bounds[-1], self.window.first_step + len(self.bounds) - 1
        added = max(step - number, 1)
        self.bounds.extend(before + (now - before) * at // added for at in range(1, added + 1))


class Windows:
    """Starts and stops windows when the session is woken. It shares the word that wakes it with the agent."""

    def __init__(self, session: WindowSession) -> None:
        self.session = session
        session.wake = memoryview(bytearray(4)).cast("i")
        self.session.wake[page.WAKE] = page.NEVER
        self._text: memoryview | None = None
        self._waiting: list[PendingWindow] = []
        self._running: _Run | None = None
        self._beside: list[_Run] = []
        """Running windows that install nothing, and so disturb no other window."""
        self._thread = 0
        self._unwatch: Callable[[], None] | None = None
        """Ends the call at each part of a step of the running window."""
        self._finishing: list[threading.Thread] = []
        self._count = 0
        self.ended: tuple[str, int] | None = None
        """The profiler of the last window that is over, and the step that began then."""
        self.switching = False
        """Whether a profiler begins or ends now: what the training thread does is no work of the script."""
        self.automatic: Look | None = None
        """Asks for windows that nobody requested."""
        self._asked = False

    def open(self) -> None:
        """Create the page, and take the requests of the environment. Raises `OSError`."""
        if self._text is not None or self.session.identity.worker is not None:
            return
        session = self.session
        memory = memoryview(create(session.spool.path(page.orders_name(session.process)), page.PAGE_SIZE))
        words = memory.cast("i")
        words[page.WAKE] = page.NEVER
        session.wake, self._text = words, memory[page.TEXT :]
        asked = os.environ.get(page.ENV_PROFILE)
        if asked:
            self._take(asked, session.step, time.perf_counter_ns())
        if self._waiting:  # the script may have requested one, too
            if any((one.first_step or 0) <= session.step for one in self._waiting):
                self.look(session.step, time.perf_counter_ns())
            else:
                self._sleep(session.step)

    def take(self, order: page.ProfilingOrder) -> None:
        """Take an order of the script itself, on the training thread; it begins with the next step."""
        try:
            self._take(order.to_text(), self.session.step + 1, time.perf_counter_ns())
            self._sleep(self.session.step)
        except Exception as error:
            self.session.fault("windows", error)

    def look(self, step: int, now: int) -> None:
        """End and begin windows at the begin of `step`, monotonic ns `now`."""
        if self._running is not None and threading.get_ident() != self._thread:
            return  # another thread also steps: a window ends on its own thread
        try:
            self._read(step, now)
            for run in list(self._runs()):
                run.extend(step, now)
                if run.window.over(step, now) or self._costs_too_much(run):
                    self._stop(run)
                elif (at_step := getattr(run.profiler, "at_step", None)) is not None:
                    at_step(step)
            self._look_closer(step, now)
            self._begin_due(step, now)
            self._sleep(step)
        except Exception as error:
            self.session.wake[page.WAKE] = page.NEVER
            self.session.fault("windows", error)

    def cut_short(self) -> None:
        """Let the next step boundary end the window that runs: its profiler cannot go on."""
        if self._running is not None:
            self._running = self._running._replace(window=replace(self._running.window, last_step=0))

    def end(self) -> None:
        """End the window that runs, for the process ends or is recorded no more."""
        self._waiting.clear()
        self._stop_all(time.perf_counter_ns())
        self.wait()
        self.session.wake[page.WAKE] = page.NEVER

    def forked(self) -> None:
        """Forget the windows of the parent process."""
        self.__init__(self.session)  # type: ignore[misc]

    # -- what is asked for

    def _read(self, step: int, now: int) -> None:
        """Take an order from the page, unless the agent is writing it."""
        words = self.session.wake
        if self._text is None or words[page.NUMBER] == words[page.TAKEN]:
            return
        number = words[page.NUMBER]
        text = bytes(self._text[: words[page.LENGTH]])
        if number == words[page.NUMBER]:
            words[page.TAKEN] = number
            self._take(text.decode(), step, now)

    def _take(self, text: str, step: int, now: int) -> None:
        try:
            order = page.ProfilingOrder.from_text(text)
        except ValueError as error:
            self._tell({"refused": str(error)})
            return
        for reason in order.refused:
            self._tell({"order": order.id, "refused": reason})
        if order.replace:
            self._waiting.clear()
            self._stop_all(now)
        self._asked = self._asked or bool(order.requests)
        for request in divided(order.requests):
            self._waiting.extend(resolved(request, order.id, step, now))

    def _look_closer(self, step: int, now: int) -> None:
        """Let the look begin its windows: on one rank, and never where somebody has asked for windows."""
        look = self.automatic
        if look is None:
            return
        if self._asked or self._rank():
            look.give_up()
        elif not self._waiting and not self._runs():
            request = look.next_window(step, now)
            self._waiting += [] if request is None else resolved(request, page.LOOK, step, now)

    def _costs_too_much(self, run: _Run) -> bool:
        return (
            run.order == page.LOOK
            and self.automatic is not None
            and self.automatic.costs_too_much(run.bounds)
        )

    def _rank(self) -> int:
        """Return the rank of this process; 0 if unknown."""
        ranks = self.session.sticky.get("rank") or rank.from_environment(os.environ)
        return ranks["rank"] or 0

    # -- when

    def _begin_due(self, step: int, now: int) -> None:
        for one in list(self._waiting):
            if not one.begins(step, now, self.session.stride):
                continue
            self._waiting.remove(one)
            request = one.request
            if request.rank not in (None, self._rank()):  # compared only now: the rank may be known late
                continue
            if self._running is not None and request.profiler not in FREE:
                self._waiting.append(replace(one, due=True))
                continue
            last, until = one.until(step, now)
            number = self._count + 1
            window = ProfilingWindow(number, request.profiler, step, last, until, request.parameters)
            if window.over(step, now):
                self._tell({"profiler": request.profiler, "order": one.order, "refused": "it is past"})
                continue
            if self._start(window, one.order):
                self._count = number
            else:
                own = request.start_step is not None and last is not None and step + 1 < last
                self._waiting.insert(0, replace(one, due=one.due or not own))
                return

    def wake_earlier(self) -> None:
        """Check before windows that begin within a call that runs several steps."""
        words = self.session.wake
        words[page.WAKE] = min(words[page.WAKE], self._next_check(self.session.step))

    def _sleep(self, step: int) -> None:
        self.session.wake[page.WAKE] = self._next_check(step)

    def _next_check(self, step: int) -> int:
        """Return the step of the next check: the next one while a window runs or waits for a time."""
        by_time = any(one.first_step is None for one in self._waiting)
        starts = [one.first_step for one in self._waiting if one.first_step is not None]
        looks = self.automatic is not None and self.automatic.waits
        if by_time or looks or self._runs():
            return step + 1
        return min(starts) - self.session.stride + 1 if starts else page.NEVER

    # -- those that run

    def _runs(self) -> list[_Run]:
        return self._beside if self._running is None else [self._running, *self._beside]

    def _stop_all(self, now: int) -> None:
        for run in list(self._runs()):
            if run.order != page.LOOK:  # a look compares whole steps
                run.bounds.append(now)
            self._stop(run)

    def end_look(self) -> None:
        """End the window of a look within its step, on the training thread."""
        run = self._running
        if run is not None and run.order == page.LOOK and threading.get_ident() == self._thread:
            self._stop(run, within=True)

    def _at_part(self, part: str, begins: bool, mode: int | None) -> None:
        """End a look within a step that takes much longer than others."""
        run, look = self._running, self.automatic
        if not begins or run is None or look is None:
            return
        if look.is_disturbed(run.bounds, time.perf_counter_ns()):
            self.end_look()

    def _start(self, window: ProfilingWindow, order: str) -> bool:
        """Begin a window; return False to try again at the next step."""
        fact = {"profiler": window.profiler, "number": window.number, "order": order}
        entered = time.perf_counter_ns()
        self.switching = True
        try:
            profiler = make(self.session, window)
            profiler.start()
        except Later:
            return False
        except ProfilerUnavailable as reason:
            self._tell({**fact, "refused": str(reason)})
        except Exception as error:
            self._tell({**fact, **self._failed(window, error)})
        else:
            # The start of the profiler is not part of the step.
            self.session.since = begun = time.perf_counter_ns()
            if order == page.LOOK and self.automatic is not None:
                self.automatic.started(begun - entered)
            run = _Run(window, profiler, order, [begun])
            if window.profiler in FREE:
                self._beside.append(run)
                return True
            self._running = run
            self._thread = threading.get_ident()
            if order == page.LOOK and self.session.watch_phases is not None:
                self._unwatch = self.session.watch_phases(self._at_part)
        finally:
            self.switching = False
        return True

    def _stop(self, run: _Run, *, within: bool = False) -> None:
        """End a window at the begin of a step, or within one."""
        window, profiler, order, bounds = run
        if self._unwatch is not None and run is self._running:
            self._unwatch()
            self._unwatch = None
        if run in self._beside:
            self._beside.remove(run)
        else:
            self._running = None
            # What is open when a window ends within a step, such as an optimizer, ends at the next begin.
            self.ended = window.profiler, self.session.step + within
        fact: dict[str, object] = {
            "profiler": window.profiler,
            "number": window.number,
            "order": order,
            "first_step": window.first_step,
            "last_step": window.first_step + len(bounds) - 1,
            "bounds": bounds,
            "parameters": window.parameters,
            "wall_minus_monotonic": time.time_ns() - time.perf_counter_ns(),
        }
        stopping = time.perf_counter_ns() if within else bounds[-1]
        self.switching = True
        try:
            if window.profiler not in FREE and threading.get_ident() != self._thread:
                raise RuntimeError("the thread that trained has ended")
            found = profiler.stop()
        except Exception as error:
            found = self._failed(window, error)
        ended = time.perf_counter_ns()
        if not within:  # the end of the profiler is not part of the next step
            self.session.since = ended
        fact["stop_ns"] = ended - stopping
        if order == page.LOOK and self.automatic is not None:
            fact["cost_ns"] = self.automatic.ended(bounds, ended - stopping)
            if len(bounds) == 1:
                self._forget(window, profiler)
                found = {"refused": "its first step took much longer than the steps before"}
        if callable(found):
            later = threading.Thread(
                target=self._finish, args=(window, profiler, found, fact), name="holter-window", daemon=True
            )
            self._finishing.append(later)
            later.start()
        else:
            self._tell({**fact, **(found or {})})
        self.switching = False

    def _finish(
        self, window: ProfilingWindow, profiler: Profiler, work: Callable[[], Found], fact: dict[str, object]
    ) -> None:
        """Finish a window while the training continues."""
        try:
            found = work()
        except Exception as error:
            found = self._failed(window, error)
        # Up to here this thread has competed with the training for the interpreter lock.
        self._tell({**fact, "done": time.perf_counter_ns(), **(found or {})})
        self._forget(window, profiler)
        self._finishing.remove(threading.current_thread())

    def _forget(self, window: ProfilingWindow, profiler: Profiler) -> None:
        """Free the events of a window."""
        if (forget := getattr(profiler, "forget", None)) is not None:
            try:
                forget()
            except Exception as error:
                self._failed(window, error)

    def _failed(self, window: ProfilingWindow, error: Exception) -> dict[str, object]:
        self.session.fault(f"profiler {window.profiler}", error)
        return {"refused": f"{type(error).__name__}: {error}"}

    def wait(self) -> None:
        """Wait until ended windows are written, up to 30 s for each."""
        for thread in list(self._finishing):
            thread.join(_PATIENCE_S)

    def _tell(self, fact: dict[str, object]) -> None:
        self.session.journal("window", {"time": time.perf_counter_ns(), **fact})
