"""The thread that reads numbers of JAX: it loses none at the end, and a late one leaves none out."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

from tests.recorder.reading import only

from holter.recorder.frameworks.jax.device import MOST_READ, PAUSE_S, DeviceWatch


class Number(float):
    """A number without dimensions."""

    ndim = 0


class Value:
    """An array of one number, as far as the thread asks it: this environment has no JAX."""

    is_fully_addressable, sharding = True, SimpleNamespace(device_set=("cpu",))

    def __init__(self, number, asked=lambda: True):
        self._value, self.is_ready = Number(number), asked


def watching(session, values):
    """Return a watch that has taken the values as the losses of steps, and whose thread waits so far."""
    watch = DeviceWatch(session, jax=None)
    session.background.end()  # the test reads itself
    for step, value in enumerate(values):
        watch.add(step, 0, 0, ["loss"], [value])
    return watch


def losses(session, spool):
    session.close()
    return [(one.step, one.value) for one in only(spool).spans("scalar")]


def test_the_end_of_the_script_loses_no_number_that_the_thread_reads(session, spool):
    reads, ends = threading.Event(), threading.Event()

    def asked():
        if threading.current_thread() is thread:
            reads.set()
            ends.wait(5)
        return True

    watch = watching(session, [Value(1.5), Value(2.5, asked)])
    thread = threading.Thread(target=watch._read)
    thread.start()
    assert reads.wait(5)
    stopping = threading.Thread(target=watch.stop)
    stopping.start()
    stopping.join(0.2)  # without the lock it has read the second number by now
    ends.set()
    thread.join()
    stopping.join()
    assert losses(session, spool) == [(0, 1.5), (1, 2.5)]


def test_a_late_thread_reads_as_many_numbers_as_one_in_time(session, spool):
    many = 2 * MOST_READ
    watch = watching(session, [Value(step) for step in range(many)])
    time.sleep(2 * PAUSE_S)
    watch._read()
    assert losses(session, spool) == [(step, step) for step in range(many)]
