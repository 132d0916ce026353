"""The loop's iterator and the producer of its queue, in stacks of real threads."""

from __future__ import annotations

import itertools
import os
import queue
import re
import sys
import threading
import time
from collections import Counter

import pytest

from holter.recorder.sampling import loop_samples
from holter.recorder.sampling.holders import Holders
from holter.recorder.sampling.producers import Seen as Frame
from holter.recorder.sampling.producers import producer, waits
from holter.recorder.sampling.stack_text import LoopCode, called_in, stack_text
from holter.recorder.switch_interval import SwitchInterval
from holter.schema.phases import HOLDS, Phase

HERE = os.path.basename(__file__)


class Seen:
    """Takes the stack where a batch is made, as the sampler would."""

    def __init__(self):
        self.loop = {}
        self.texts = []

    def step(self):
        frame = sys._getframe(1)
        self.loop[id(frame.f_code)] = LoopCode(frame.f_code, frozenset({frame.f_lasti}))

    def decode(self):
        frames = [sys._getframe()]
        while id(frames[-1].f_code) not in self.loop and frames[-1].f_back is not None:
            frames.append(frames[-1].f_back)
        if id(frames[-1].f_code) in self.loop:
            self.texts.append(stack_text([Frame.of(one) for one in frames[::-1]], self.loop))
        return 1


def stream(seen, count=3):
    for _ in range(count):
        yield seen.decode()


def delegating(seen):
    yield from stream(seen)


class Rows:
    def __init__(self, seen):
        self.seen, self.left = seen, 3

    def raw(self):
        yield from range(3)

    def __iter__(self):
        for _ in self.raw():
            yield self.seen.decode()


class Next(Rows):
    def __iter__(self):
        return self

    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return self.seen.decode()


class Items:
    def __init__(self, seen):
        self.seen = seen

    def __getitem__(self, at):
        if at == 3:
            raise IndexError
        return self.seen.decode()


class Bar:
    """Shows the progress of another iterable."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        for item in self.items:
            yield (item,)


ITERABLES = {
    "stream [generator]": stream,
    "stream [generator] again": delegating,
    "Rows.__iter__ [generator]": Rows,
    "Next.__next__ [iterator]": Next,
    "<lambda> [iterator]": lambda seen: map(lambda _: seen.decode(), range(3)),  # noqa: C417
    "stream [generator] of a chain": lambda seen: itertools.chain(stream(seen, 1), stream(seen, 2)),
    "stream [generator] of a slice": lambda seen: itertools.islice(stream(seen, 9), 3),
    "stream [generator] of a zip": lambda seen: zip(range(3), stream(seen), strict=False),
    "stream [generator] of a bar": lambda seen: enumerate(Bar(stream(seen))),
}


@pytest.mark.parametrize("name", ITERABLES)
def test_the_iterator_of_the_loop_is_named(name):
    seen = Seen()
    for _ in ITERABLES[name](seen):
        seen.step()
    function, kind = name.split()[:2]
    assert len(seen.texts) == 2  # the first item comes before the first step
    shown = re.escape(f"{function} ") if function[0] != "<" else r"[\w.]*<lambda> "
    if sys.version_info < (3, 11):  # only the bare name is known there
        shown = re.escape(f"{function.rpartition('.')[2]} ")
    assert re.search(rf"{shown}\(\S*{HERE}:\d+\) {re.escape(kind)};", seen.texts[0]), seen.texts


def test_the_items_of_a_sequence_are_its_iterator():
    seen = Seen()
    for _ in Items(seen):
        seen.step()
    assert "__getitem__" in seen.texts[0].split(" [iterator]")[0].rpartition(";")[2]


def test_a_function_that_the_loop_calls_is_no_iterator():
    seen = Seen()
    for _ in range(3):
        seen.step()
        for _ in stream(seen, 1):
            pass
        seen.decode()
    assert seen.texts
    assert not any("iterator]" in text or "generator]" in text for text in seen.texts)


def crunch(ready):
    ready.set()
    while ready.is_set():
        time.sleep(0.01)


def test_the_producer_is_the_thread_that_works():
    ready, idle = threading.Event(), queue.Queue()
    names = {"reader": lambda: crunch(ready), "unpacker": idle.get}
    threads = [threading.Thread(target=work, name=name) for name, work in names.items()]
    for thread in threads:
        thread.start()
    ready.wait()
    try:
        time.sleep(0.05)
        stacks = sys._current_frames()
        others = [ident for ident in stacks if ident not in {thread.ident for thread in threads}]
        found = producer(others, called_in, lambda several: several[0])
        assert (found.name, found.only) == ("thread reader", True)
        assert [frame.f_code.co_name for frame in found.frames][-1] == "crunch"
        assert waits(Frame.of(stacks[threads[1].ident]), "")
        others.append(threads[0].ident)
        assert producer(others, called_in, lambda several: several[0]) is None
    finally:
        ready.clear()
        idle.put(0)
        for thread in threads:
            thread.join()


def count(over):
    total = 0
    while not over.is_set():
        total += 1


def wait(over):
    over.wait()


LATE = 10**9


def test_the_holder_of_the_interpreter_is_the_thread_that_runs():
    over, holders = threading.Event(), Holders()
    threads = [
        threading.Thread(target=work, args=(over,), name=name)
        for work, name in ((wait, "watch"), (count, "a;b"), (count, "holter-loop"))
    ]
    for thread in threads:
        thread.start()
    try:
        holders.sleeps()
        assert holders.holder(LATE, 0) is None, "the first look has nothing to compare with"
        holders.sleeps()
        time.sleep(0.3)
        found = holders.holder(LATE, 0)
        assert re.fullmatch(rf"thread a,b;(.+;)?count \(.*{HERE}:\d+\)", found), found
        holders.sleeps()
        time.sleep(0.3)
        assert holders.holder(0, 0) is None, "a sampler that wakes in time waits for nobody"
        assert holders.holder(LATE, threads[1].ident) is None, "the training thread holds it itself"
    finally:
        over.set()
        for thread in threads:
            thread.join()


HELD = """
import threading, time

def collect(over):
    while not over.is_set():
        sum(len(word) for word in ["to", "be"] * 100)

def multiply(over):
    matrix = torch.randn(400, 400)
    while not over.is_set():
        matrix @ matrix

def sleep(over):
    while not over.wait(0.01):
        pass

for work in (multiply, sleep, collect):
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,), name=work.__name__ + "s")
    thread.start()
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    until = time.monotonic() + 4
    while time.monotonic() < until:
        optimizer.zero_grad()
        model(torch.randn(64, 8)).sum().backward()
        optimizer.step()
    over.set()
    thread.join()
"""


def test_the_thread_that_holds_the_interpreter_is_sampled(record):
    done = record(HELD)
    held = Counter()
    for span in done.trainer.spans:
        if span.phase == Phase.LOOP_STACK and span.value == HOLDS:
            thread, function = re.match(r"thread (\w+);(\w+) \(train\.py:\d+\)", span.name).groups()
            assert thread == f"{function}s"
            held[function] += span.duration / 1e9
    assert held["collect"] > 0.2
    # On a crowded machine, any thread may lose its core while it holds the lock.
    assert held["collect"] > held["multiply"] + held["sleep"], held


def test_the_end_of_a_session_waits_for_the_sampler_of_its_loop(session):
    loop_samples.LoopSampler(session, lambda: 0, "torch").learn()
    assert "holter-loop" in {each.name for each in threading.enumerate()}
    session.end()
    assert "holter-loop" not in {each.name for each in threading.enumerate()}


def test_no_sample_is_taken_while_a_profiler_ends(session):
    """The training thread stands in `optimizer.step()` then, whose line would get all of these samples."""
    session.thread_spool()  # which makes this thread one that trains
    sampler = loop_samples.LoopSampler(session, threading.get_ident, "torch")
    session.windows.switching = True
    sampler.sample_any(1000, SwitchInterval(0.001))
    assert not sampler._known
    session.windows.switching = False
    sampler.sample_any(1000, SwitchInterval(0.001))
    assert sampler._known
