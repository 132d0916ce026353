"""Splits the time of the thread that builds batches into computing and waiting."""

from __future__ import annotations

import contextlib
import os
import platform
import threading

_FUTEX = {"x86_64": b"202", "aarch64": b"98"}.get(platform.machine(), b"")
"""Number of the system call in which a thread waits for a lock, the interpreter's above all."""
WAITS, RUNS, LOCKED, UNKNOWN = range(4)
"""What a thread does: wait in a system call, run or be ready to, wait for a lock; or nobody knows."""
SHORT_NS = 200_000
PATIENCE = 100
"""Looks without one of the other kind, after which that kind's time goes to the kind that is seen."""


class ThreadActivity:
    """What the kernel says of one thread of this process."""

    def __init__(self, native_id: int) -> None:
        self.native_id = native_id
        self._times = self._call = -1
        with contextlib.suppress(OSError):
            self._times = os.open(f"/proc/self/task/{native_id}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            self._call = os.open(f"/proc/self/task/{native_id}/syscall", os.O_RDONLY | os.O_CLOEXEC)
            os.pread(self._call, 64, 0)  # some containers let it be opened, but not read
            return
        self.close()

    def computed(self) -> int:
        """Nanoseconds this thread was on a processor, or ready to be."""
        if self._times < 0:
            return 0
        on, ready = os.pread(self._times, 96, 0).split()[:2]
        return int(on) + int(ready)

    def state(self) -> int:
        """What it does now."""
        if self._call < 0:
            return UNKNOWN
        call = os.pread(self._call, 64, 0).partition(b" ")[0].strip()
        return RUNS if call == b"running" else LOCKED if call == _FUTEX else WAITS

    def close(self) -> None:
        """Give the files back."""
        for descriptor in (self._times, self._call):
            if descriptor >= 0:
                os.close(descriptor)
        self._times = self._call = -1

    __del__ = close  # not before: where several threads fetch, another one may be looking into them


class Fetching:
    """Which thread builds a batch now, and what time went into building batches, collating apart."""

    def __init__(self) -> None:
        self.thread = 0
        self.began = 0
        """Begin of the stretch that counts, ns; 0 while no batch is being built."""
        self.files: ThreadActivity | None = None
        self._wall = 0
        self._computed = 0
        self._computed_before = 0
        """What it had computed when the stretch began; -1 when nobody asked."""
        self._short = True
        """The last stretch was too short to be worth two questions to the kernel."""

    def forget(self) -> None:
        """This is another process now: the files speak of a thread of its parent's."""
        self.files = None

    def start(self, now: int) -> None:
        """The calling thread works on samples from now on."""
        native, files = threading.get_native_id(), self.files
        if files is None or files.native_id != native:
            files = self.files = ThreadActivity(native)
            self.thread = threading.get_ident()
        self._computed_before = -1 if self._short else files.computed()
        self.began = now

    def stop(self, now: int) -> None:
        """It does so no more."""
        if self.began:
            time = now - self.began
            self._wall += time
            self.began = 0
            self._short = time < SHORT_NS
            if self._computed_before < 0:
                self._computed += time
            elif self.files is not None:
                self._computed += self.files.computed() - self._computed_before

    def totals(self, now: int) -> tuple[int, int]:
        """Nanoseconds that went into samples until `now`: in all, and of these on a processor."""
        began, files = self.began, self.files
        if not began or files is None:
            return self._wall, self._computed
        if self._computed_before < 0:
            return self._wall + now - began, self._computed + now - began
        return self._wall + now - began, self._computed + files.computed() - self._computed_before


class Kinds:
    """Tells whether a look found the dataset computing or waiting, from what it was doing at that moment.

    A thread that let the lock go just now may be seen running still, on its way to what it will wait
    for. Looks that came in time saw no such thing, so they tell what its stack usually does.
    """

    def __init__(self) -> None:
        self._seen: dict[int, list[int]] = {}

    def computes(self, stack: int, state: int, *, late: bool) -> bool:
        """Return whether it computes. Held up by the interpreter's lock, it does: it wants to go on."""
        if state == RUNS:
            waited, ran = self._seen.setdefault(stack, [0, 0])
            if late and waited > ran:
                return False
        if not late and state in (WAITS, RUNS):
            self._seen.setdefault(stack, [0, 0])[state] += 1
        return state != WAITS


class Ledger:
    """Gives each look the time it stands for.

    A look comes late where the dataset computes, since it must get the interpreter's lock and often a
    processor, and finds the dataset at the next point where it waits. So looks that find it waiting are
    too many. But how long it computed and how long it waited is known exactly: a look stands for the
    time of its own kind since the last look of that kind. (Measured: 40 % for a true 25 % before.)
    """

    def __init__(self) -> None:
        self._wall = self._computed = 0
        self._owed = [0, 0]
        self._unseen = [0, 0]

    def add(self, wall: int, computed: int) -> None:
        """Take note of the totals."""
        wall, self._wall = wall - self._wall, wall
        computed, self._computed = computed - self._computed, computed
        self._owed[0] += wall - computed
        self._owed[1] += computed

    def draw(self, computes: bool) -> int:
        """Return the nanoseconds that a look stands for, which finds the dataset computing or waiting."""
        kind, other = int(computes), int(not computes)
        self._unseen[kind] = 0
        self._unseen[other] += 1
        time = self._owed[kind]
        self._owed[kind] = 0
        if time < 0 or self._unseen[other] >= PATIENCE:
            time += self._owed[other]
            self._owed[other] = 0
        if time < 0:  # the two clocks were not read in the same instant
            self._owed[other], time = self._owed[other] + time, 0
        return time

    def rest(self) -> int:
        """Return what no look stands for."""
        rest = max(sum(self._owed), 0)
        self._owed = [0, 0]
        return rest
