"""Python profilers in a window: cut by step and part, three timers, nothing left; and the rows of them."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.recorder.reading import PACKAGE, environment, only, run

from holter.agent.drain.clock import Clock
from holter.agent.drain.windows import Fact
from holter.agent.drain.windows.python import RUNNING, rows
from holter.schema.table import Table
from holter.schema.windows import ENV_PROFILE, ProfilingOrder, Request

TRAINING = """
import os, sys, time, torch
from holter.recorder import session
class Net(torch.nn.Linear):
    def forward(self, x):
        think(0.004)
        return super().forward(x)
def think(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
def fetch():
    nap(0.01)
    return torch.ones(2, 4)
def nap(seconds):
    time.sleep(seconds)
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, at):
        return fetch()
def hooks():
    at = session.current.watch_phases.__self__.states.current
    return at.begin, at.end_of
net = Net(4, 4)
before = hooks()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step, x in enumerate(torch.utils.data.DataLoader(Data(), num_workers=0)):
    assert (sys.getprofile() is not None) == (3 <= step < 9), step
    if step == 5:
        child = os.fork()
        if not child:  # as a worker of a loader: it is not profiled
            os._exit(0 if sys.getprofile() is None else 1)
        assert os.waitpid(child, 0)[1] == 0
    net(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 7:
        net.eval()
        with torch.no_grad():
            net(x)
        net.train()
assert sys.getprofile() is None
assert hooks() == before
"""


def profiled(spool, request, code=TRAINING, **kwargs):
    """Run a training with a window; return the fact of it, and its tables in memory."""
    text = ProfilingOrder((request,)).to_text()
    done = run(spool, code, env=environment(spool, **{ENV_PROFILE: text}), **kwargs)
    assert done.returncode == 0, done.stderr
    process = only(spool)
    assert process.facts("fault") == []
    (fact,) = process.facts("window")
    assert "refused" not in fact, fact
    path = spool / fact["file"]
    said = Fact("python", fact["first_step"], fact["last_step"], fact["bounds"], process.key)
    found = rows(path, said, Clock(0, 10**18))
    return fact, {name: table(name, columns) for name, columns in found.items()}


def table(name, columns):
    plain = {}
    for column, values in columns.items():
        if isinstance(values, tuple):
            codes, texts = values
            values = [texts[code] for code in codes]
        plain[column] = list(values)
    names = list(plain)
    return Table.of(name, [dict(zip(names, row, strict=True)) for row in zip(*plain.values(), strict=True)])


def total(found, function, **where):
    mask = [text.startswith(function) for text in found["function"]]
    for column, value in where.items():
        mask = [a and b == value for a, b in zip(mask, found[column], strict=True)]
    chosen = found.where([at for at, one in enumerate(mask) if one])
    return sum(chosen["calls"].tolist()), sum(chosen["total_time"].tolist()) / 1e6


@pytest.fixture(scope="module")
def cycled(tmp_path_factory):
    spool = tmp_path_factory.mktemp("spool")
    parameters = {"profiler": "cprofile", "timer": "default"}
    return profiled(spool, Request("python", start_step=3, steps=6, parameters=parameters))


def test_every_step_of_the_window_and_no_other_has_its_parts(cycled):
    fact, found = cycled
    functions = found["python_functions"]
    assert (fact["first_step"], fact["last_step"]) == (3, 9)
    parts = Counter(zip(functions["step"].tolist(), functions["phase"].tolist(), strict=True))
    for step in range(3, 9):
        for part in ("data_loading", "forward", "loss", "backward", "optimizer", "other"):
            assert (step, part) in parts, (step, part)
    assert min(parts)[0] == 3


def test_functions_stand_where_they_were_called(cycled):
    functions = cycled[1]["python_functions"]
    for step in range(3, 9):
        assert total(functions, "fetch (", step=step, phase="data_loading")[0] == 1
        assert total(functions, "fetch (", step=step)[0] == 1
        assert total(functions, "Net.forward (", step=step, mode="train")[0] == 1
    assert total(functions, "Net.forward (", mode="eval")[0] == 1
    assert {row["phase"] for row in functions.to_rows() if row["function"].startswith("think (")} == {
        "forward"
    }


def test_three_timers_tell_computing_from_waiting(cycled):
    functions = cycled[1]["python_functions"]
    for step, timer in enumerate(("total_time", "cpu_time", "off_cpu_time") * 2, 3):
        assert {row["timer"] for row in functions.to_rows() if row["step"] == step} == {timer}
    for step in (3, 6):
        assert total(functions, "nap (", step=step)[1] >= 10
        assert total(functions, "think (", step=step, mode="train")[1] >= 4
    for step in (4, 7):
        assert total(functions, "nap (", step=step)[1] < 3
        assert total(functions, "think (", step=step, mode="train")[1] >= 3.5
    for step in (5, 8):
        assert total(functions, "nap (", step=step)[1] >= 7


def test_own_times_of_a_part_add_up_to_it(cycled):
    functions = cycled[1]["python_functions"]
    wall = {}
    for row in functions.to_rows():
        if row["timer"] == "total_time":
            part = wall.setdefault((row["time"], row["duration"]), [])
            part.append(row["self_time"])
    assert wall
    fits = [
        sum(selves) == pytest.approx(duration, rel=0.02, abs=1e5) for (_, duration), selves in wall.items()
    ]
    assert sum(fits) >= 0.8 * len(fits)  # on a busy machine the thread may stand still between two clocks


def test_who_calls_whom(cycled):
    calls = cycled[1]["python_calls"]
    edges = {
        (caller.split(" (")[0], function.split(" (")[0])
        for caller, function in zip(calls["caller"], calls["function"], strict=True)
    }
    assert {("fetch", "nap"), ("Net.forward", "think"), ("Data.__getitem__", "fetch")} <= edges


def test_the_recorder_is_no_part_of_it(cycled):
    names = set(cycled[1]["python_functions"]["function"])
    ours = (PACKAGE, "holter.recorder")
    assert not [
        name for name in names if any(one in name for one in ours) or "_lsprof" in name or "pack_into" in name
    ]
    assert RUNNING in names


def test_samples_have_steps_and_parts_too(spool):
    pytest.importorskip("pyinstrument", reason="the profiler that samples is an extra of the training's")
    request = Request("python", start_step=3, steps=6, parameters={"profiler": "pyinstrument"})
    _, found = profiled(spool, request)
    stacks = found["python_stacks"]
    assert set(stacks["step"].tolist()) == set(range(3, 9))
    where: Counter = Counter()
    for row in stacks.to_rows():
        if "nap (" in row["stack"]:
            where[row["phase"]] += row["self_time"]
        assert PACKAGE not in row["stack"]
    assert where["data_loading"] > 0.9 * where.total() > 50e6
    wall = sum({row["time"]: row["duration"] for row in stacks.to_rows()}.values())
    assert sum(stacks["self_time"].tolist()) == pytest.approx(wall, rel=0.2)


def test_a_profiler_of_the_script_is_left_alone(session, spool):
    calls = []

    def mine(frame, event, argument):
        calls.append(event)

    session.open(recording=True)
    session.boundary()
    sys.setprofile(mine)
    try:
        session.windows.take(ProfilingOrder((Request("python", steps=1),)))
        session.boundary()
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
    (fact,) = only(spool).facts("window")
    assert "another profiler is at work: function" in fact["refused"]


def test_steps_without_any_framework_are_cut_too(session, spool):
    def work():
        return sum(range(1000))

    session.open(recording=True)
    session.boundary()
    session.windows.take(ProfilingOrder((Request("python", steps=2),)))
    for _ in range(5):
        session.boundary()
        work()
    session.windows.wait()
    (fact,) = only(spool).facts("window")
    said = Fact("python", fact["first_step"], fact["last_step"], fact["bounds"], session.process)
    found = rows(spool / fact["file"], said, Clock(0, 10**18))
    functions = table("python_functions", found["python_functions"])
    assert [total(functions, f"{work.__qualname__} (", step=step)[0] for step in (1, 2, 3, 4)] == [0, 1, 1, 0]


@pytest.mark.parametrize(
    "text",
    [
        '{"names":["a"],"end":1,"phase":"other","timer":"total_time","functions":[7,1,1,1,1]}',
        '{"names":["a"],"end":1,"phase":"other","timer":"total_time","functions":[0,1,1]}',
        '{"names":["a"],"end":1,"phase":"nowhere","timer":"total_time"}',
        '{"names":["a"],"end":1,"phase":"other","timer":"total_time","calls":[0,9,1,1,1,1]}',
        '{"names":[],"segments":[{"step":1,"phase":"other","mode":1,"timer":"","begin":1,"end":2}],"samples":[3,4]}',
        '{"names": 3}',
        "import os",
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, text):
    path = tmp_path / "window"
    path.write_text(text + "\n")
    with pytest.raises(ValueError, match=r".+"):
        rows(path, Fact("python", 0, 1, [0, 1], "p"), Clock(0, 10**18))
