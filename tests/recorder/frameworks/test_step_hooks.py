"""Hooks that are compiled write what Python's write, of usual steps and of those that turn unusual."""

from __future__ import annotations

import gc
import threading
from collections import Counter

import pytest

from holter.recorder.frameworks.pytorch.stepping import step_hooks
from holter.recorder.spool import hotpath, thread_spool
from holter.schema.phases import Mode, Phase
from holter.schema.record import ENV_COMPILE

LOOP = """
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def batches(samples=48):
    torch.manual_seed(3)
    yield from DataLoader(data(samples), batch_size=4)
def loss_of(x, y):
    return nn.functional.cross_entropy(model(x), y)
def step(x, y):
    optimizer.zero_grad()
    loss_of(x, y).backward()
    optimizer.step()
"""
TRAININGS = {
    "plain": "for x, y in batches(512): step(x, y)",
    "schedule": """
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
for x, y in batches():
    step(x, y)
    scheduler.step()
""",
    "lr in a tensor": """
optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1), foreach=False)
for i, (x, y) in enumerate(batches()):
    step(x, y)
    optimizer.param_groups[0]["lr"].mul_(0.5 if i % 4 == 3 else 1.0)
""",
    "a second optimizer comes late": """
for i, (x, y) in enumerate(batches(256)):
    step(x, y)
    if i == 20:
        other = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))])
    if i > 24:
        other.step()
""",
    "another optimizer in its place": """
for i, (x, y) in enumerate(batches(256)):
    step(x, y)
    if i % 20 == 19:
        optimizer = (torch.optim.Adam if i % 40 == 19 else torch.optim.SGD)(model.parameters(), lr=0.01)
""",
    "accumulation, evaluation, inference": """
for i, (x, y) in enumerate(batches(128)):
    loss_of(x, y).backward()
    if i % 2:
        optimizer.step()
        optimizer.zero_grad()
    if i % 8 == 7:
        model.eval()
        with torch.no_grad():
            loss_of(x, y)
        model.train()
""",
    "mixed precision": """
scaler = torch.amp.GradScaler("cpu")
for x, y in batches():
    optimizer.zero_grad()
    scaler.scale(loss_of(x, y)).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    "losses that are none": """
for i, (x, y) in enumerate(batches()):
    optimizer.zero_grad()
    loss = loss_of(x, y)
    if i == 3: loss = loss * float("nan")
    if i == 4: loss = loss.double()
    if i == 5: loss = torch.stack([loss, loss])
    torch.autograd.backward([loss, loss.sum() * 2] if i == 6 else loss, torch.ones(2) if i == 5 else None)
    optimizer.step() if i != 3 else None
""",
    "told by hand": """
import holter
for i, (x, y) in enumerate(batches()):
    if i == 4: holter.log(loss=1.0, lr=2.0)
    step(x, y)
    if i > 7: holter.step()
""",
    "steps that raise": """
def broken(*_): raise ValueError
for i, (x, y) in enumerate(batches()):
    try:
        if i == 5: handle = optimizer.register_step_pre_hook(broken)
        if i == 7: hook = model.head.weight.register_hook(broken)
        step(x, y)
    except ValueError: pass
    if i == 5: handle.remove()
    if i == 7: hook.remove()
""",
    "passes within passes": """
from torch.utils.checkpoint import checkpoint
for x, y in batches():
    optimizer.zero_grad()
    h = checkpoint(model.body, x, use_reentrant=True)
    h = checkpoint(model.body, x.requires_grad_(), use_reentrant=True)
    nn.functional.cross_entropy(model.head(h), y).backward()
    optimizer.step()
""",
    "threads, forks": """
import os, threading
for x, y in batches(): step(x, y)
for _ in range(3):
    thread = threading.Thread(target=lambda: [step(x, y) for x, y in batches(16)])
    thread.start()
    thread.join()
pid = os.fork()
for x, y in batches(): step(x, y)
if not pid:
    os._exit(0)
os.waitpid(pid, 0)
""",
}


HOOKED = [Phase.STEP, Phase.DATA_LOADING, Phase.FORWARD, Phase.LOSS, Phase.BACKWARD, Phase.OPTIMIZER]
HOOKED += [Phase.SCALAR, Phase.EVAL, Phase.SKIPPED]
NOW_AND_THEN = ("grad_norm", "update_ratio")
"""The default statistics are written as time allows, so their steps differ from run to run."""


def told(recording):
    """Return the records of each process without times; tells the main thread from all others.

    Threads that follow one another share a number if the first is gone in time.
    """
    found = []
    for process in recording.processes:
        spans = [
            one for one in process.spans if one.phase in HOOKED and not one.name.startswith(NOW_AND_THEN)
        ]
        found.append(
            sorted((one.thread > 0, one.step, one.phase, one.name, one.mode, _value(one)) for one in spans)
        )
    return sorted(found)


def _value(span):
    """Return the value of a span whose value is not a time."""
    return repr(span.value) if span.phase in (Phase.SCALAR, Phase.LOSS) else ""


@pytest.mark.parametrize("training", TRAININGS)
def test_both_write_the_same(record, monkeypatch, training):
    if hotpath.compiled() is None:
        pytest.skip("the hot path was not compiled here: `python hatch_build.py` says why")
    compiled = told(record("torch.manual_seed(0)\n" + LOOP + TRAININGS[training]))
    monkeypatch.setenv(ENV_COMPILE, "0")
    plain = told(record("torch.manual_seed(0)\n" + LOOP + TRAININGS[training]))
    assert compiled == plain, set(compiled[0]) ^ set(plain[0])
    assert len(compiled[0]) > 30


def test_trainings_that_follow_one_another_in_a_process_are_all_recorded(record):
    """Under the sanitizers, where a process takes long to start, this is run instead of the comparisons."""
    recording = record(
        "".join(f"torch.manual_seed(0)\n{LOOP}{training}\n" for training in TRAININGS.values())
    )
    trainer, child = sorted(recording.processes, key=lambda one: -len(one.spans))
    found = Counter((span.phase, span.thread > 0) for span in trainer.spans)
    assert found[Phase.OPTIMIZER, False] > 400
    assert found[Phase.OPTIMIZER, True] == len(child.of(Phase.OPTIMIZER)) == 12
    assert Mode.EVAL in {span.mode for span in trainer.of(Phase.FORWARD)}


@pytest.mark.skipif(not step_hooks.COMPILED, reason="nothing is compiled here")
def test_a_usual_step_calls_few_functions_of_ours(record):
    recording = record(
        LOOP
        + """
import os, sys
ours = os.path.dirname(sys.modules["holter"].__file__) + os.sep
calls = []
def note(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.startswith(ours):
        calls.append(frame.f_code.co_name)
for i, (x, y) in enumerate(batches(128)):
    sys.setprofile(note if i == 30 else None)
    step(x, y)
    sys.setprofile(None)
print(*calls)
"""
    )
    called = recording.stdout.split()
    assert called == ["__call__", "backward", "before", "after"]


class CountedStates(threading.local):
    """Gives each thread its state, as `ThreadStates` does, and counts the calls."""

    asked: list[str] = []  # noqa: RUF012

    def __init__(self, session):
        self.state = step_hooks.FastThreadState(session.thread_spool())

    @property
    def current(self):
        self.asked.append(threading.current_thread().name)
        return self.state


@pytest.mark.skipif(not step_hooks.COMPILED, reason="nothing is compiled here")
def test_each_thread_has_its_own_state_and_its_end_is_seen(session):
    adapter = step_hooks.FastStepHooks()
    adapter.session, adapter.local = session, CountedStates(session)
    CountedStates.asked.clear()
    mine = adapter.current
    assert adapter.current is adapter.current is mine
    assert len(CountedStates.asked) == 1  # then it is known
    found = []

    def other():
        found.append((adapter.current is mine, adapter.current.optimizers))
        adapter.current.optimizers = 7

    for _ in range(3):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        gc.collect()
    assert found == [(False, 0)] * 3  # of a thread that ended nothing is left
    assert adapter.current is mine
    assert mine.optimizers == 0
    mine.thread_spool.release()  # as when its thread has ended, but something holds on to its state
    known = len(CountedStates.asked)
    assert adapter.current is mine
    assert len(CountedStates.asked) == known + 1
    with pytest.raises(TypeError, match="StepCounter"):
        adapter.session = object()


@pytest.mark.skipif(not step_hooks.COMPILED, reason="nothing is compiled here")
def test_what_is_torn_down_in_any_order_is_asked_of_nobody(session):
    adapter = step_hooks.FastStepHooks()
    assert adapter.optimizer_begins(object()) is False
    assert adapter.optimizer_ended(object()) is False
    with pytest.raises(AttributeError):
        adapter.pass_begins(None)  # nobody to ask
    adapter.session, adapter.local = session, CountedStates(session)
    state = adapter.current
    for first, second in ((adapter, state), (state, adapter)):
        cycle = [first, second]
        cycle.append(cycle)
    del adapter, state, first, second, cycle
    gc.collect()


def test_a_pen_of_python_is_told_of_steps_by_either_count(session, monkeypatch):
    woken = []
    monkeypatch.setattr(type(session), "woken", lambda self, step, now: woken.append((step, now)))
    session.thread_spool()
    session.writers.append(hotpath.SpanWriter(thread_spool.ThreadSpool(session)))
    session.wake[0] = 2
    for now in (10, 20, 30):
        session.next_step(now)
    assert [writer.low_step for writer in session.writers] == [3, 3]
    assert (session.step, session.since, woken) == (3, 30, [(2, 20), (3, 30)])
    session.writers.pop()
