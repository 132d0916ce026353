"""Hooks that are compiled write what Python's write, of usual steps and of those that turn unusual."""

from __future__ import annotations

import gc
import threading

import pytest

from holter.recorder.frameworks.pytorch.stepping import usual
from holter.recorder.spool import hotpath, marks
from holter.schema.phases import Phase
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
"""Others are written now and then, as time allows."""


def told(recording):
    """What was written of each process, but for when."""
    return sorted(
        sorted(
            (one.thread, one.step, one.phase, one.name, one.mode, repr(one.value) if _counts(one) else "")
            for one in process.spans
            if one.phase in HOOKED
        )
        for process in recording.processes
    )


def _counts(span):
    """Whether its value is no time."""
    return span.phase in (Phase.SCALAR, Phase.LOSS)


@pytest.mark.parametrize("training", TRAININGS)
def test_both_write_the_same(record, monkeypatch, training):
    if hotpath.compiled() is None:
        pytest.skip("the hot path was not compiled here: `python hatch_build.py` says why")
    compiled = told(record("torch.manual_seed(0)\n" + LOOP + TRAININGS[training]))
    monkeypatch.setenv(ENV_COMPILE, "0")
    assert compiled == told(record("torch.manual_seed(0)\n" + LOOP + TRAININGS[training]))
    assert len(compiled[0]) > 30


@pytest.mark.skipif(not usual.COMPILED, reason="nothing is compiled here")
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


class Local(threading.local):
    """Leads a thread to its state, as `Here` does, and counts how often it was asked."""

    asked: list[str] = []  # noqa: RUF012

    def __init__(self, session):
        self.state = usual.NewAt(session.marks())

    @property
    def at(self):
        self.asked.append(threading.current_thread().name)
        return self.state


@pytest.mark.skipif(not usual.COMPILED, reason="nothing is compiled here")
def test_each_thread_has_its_own_state_and_its_end_is_seen(session):
    flow = usual.Usual()
    flow.session, flow.local = session, Local(session)
    Local.asked.clear()
    mine = flow.at
    assert flow.at is flow.at is mine
    assert len(Local.asked) == 1  # then it is known
    found = []

    def other():
        found.append((flow.at is mine, flow.at.optimizers))
        flow.at.optimizers = 7

    for _ in range(3):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        gc.collect()
    assert found == [(False, 0)] * 3  # of a thread that ended nothing is left
    assert flow.at is mine
    assert mine.optimizers == 0
    mine.marks.release()  # as when its thread has ended, but something holds on to its state
    known = len(Local.asked)
    assert flow.at is mine
    assert len(Local.asked) == known + 1
    with pytest.raises(TypeError, match="counts steps"):
        flow.session = object()


@pytest.mark.skipif(not usual.COMPILED, reason="nothing is compiled here")
def test_what_is_torn_down_in_any_order_is_asked_of_nobody(session):
    flow = usual.Usual()
    assert flow.optimizer_begins(object()) is False
    assert flow.optimizer_ended(object()) is False
    with pytest.raises(AttributeError):
        flow.pass_begins(None)  # nobody to ask
    flow.session, flow.local = session, Local(session)
    at = flow.at
    for first, second in ((flow, at), (at, flow)):
        cycle = [first, second]
        cycle.append(cycle)
    del flow, at, first, second, cycle
    gc.collect()


def test_a_pen_of_python_is_told_of_steps_by_either_count(session, monkeypatch):
    woken = []
    monkeypatch.setattr(type(session), "woken", lambda self, step, now: woken.append((step, now)))
    session.marks()
    session.pens.append(hotpath.Pen(marks.Marks(session)))
    session.wake[0] = 2
    for now in (10, 20, 30):
        session.next_step(now)
    assert [pen.low_step for pen in session.pens] == [3, 3]
    assert (session.step, session.since, woken) == (3, 30, [(2, 20), (3, 30)])
    session.pens.pop()
