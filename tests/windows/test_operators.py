"""What torch's profiler saw in a window becomes rows: of these steps only, each where it belongs."""

from __future__ import annotations

import json
import threading
import time
from array import array

import numpy as np
import pytest
import torch

from holter.agent.drain.clock import Clock
from holter.agent.drain.windows import Fact, operators
from holter.recorder.profilers import _events
from holter.recorder.profilers import operators as profiler
from holter.schema.tables import TABLES

ASK = {"profiler": "operators", "start_step": 2, "steps": 3}


def trained(train, work, **parameters) -> tuple[dict, dict]:
    """Train with a window; return its fact and its rows by table."""
    made = train(json.dumps({"requests": [{**ASK, "parameters": parameters}]}))
    for step in range(8):
        work(step)
        made.steps(1)
    (told,) = made.told()
    return told, rows(made.spool / told["file"], told)


def rows(path, told, **more) -> dict:
    fact = Fact(
        "operators",
        told["first_step"],
        told["last_step"],
        told["bounds"],
        "1-1",
        told["wall_minus_monotonic"],
        **more,
    )
    return operators.rows(path, fact, Clock(0, 10**18))


def texts(column) -> list[str]:
    if isinstance(column, tuple):
        codes, values = column
        return [values[code] for code in codes]
    return list(column)


@pytest.mark.capability("PyTorch", windows="operators")
def test_operators_of_the_windows_steps_and_no_others(train):
    told, found = trained(train, lambda step: torch.full((step + 1,), 0.5).cos())
    table = found["operators"]
    names = texts(table["name"])
    cosines = [int(step) for step, name in zip(table["step"], names, strict=True) if name == "aten::cos"]
    assert cosines == [2, 3, 4]
    assert set(texts(table["kind"])) == {"operator"}
    assert set(table["step"].tolist()) == {2, 3, 4}
    begins = table["time"] - 10**18
    assert begins.min() >= told["bounds"][0]
    assert (begins + table["duration"]).max() <= told["bounds"][-1]
    assert (np.diff(begins) >= 0).all()
    assert all(
        columns.keys() <= {one.name for one in TABLES[name].columns} for name, columns in found.items()
    )
    assert sum(len(columns["time"]) for name, columns in found.items() if name != "operators") == 0
    assert told["device"] == "cpu"


def test_shapes_and_stacks_on_request(train):
    model = torch.nn.Linear(4, 2)
    _, plain = trained(train, lambda step: model(torch.ones(3, 4)))
    assert set(texts(plain["operators"]["detail"])) == {""}
    _, found = trained(train, lambda step: model(torch.ones(3, 4)), shapes=True, stacks=True)
    table = found["operators"]
    by_name = dict(zip(texts(table["name"]), texts(table["detail"]), strict=True))
    assert json.loads(by_name["aten::linear"])["shapes"] == [[3, 4], [2, 4], [2]]
    assert {"module", "python", "operator"} <= set(texts(table["kind"]))
    modules = [n for n, k in zip(texts(table["name"]), texts(table["kind"]), strict=True) if k == "module"]
    assert modules == ["nn.Module: Linear_0"] * 3
    assert not [name for name in texts(table["name"]) if "holter/recorder/" in name]


def test_a_span_of_the_framework_that_is_open_at_the_border_is_cut_there(train):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], 0.1)
    made = train(json.dumps({"requests": [{"profiler": "operators", "start_step": 1, "steps": 1}]}))
    handle = optimizer.register_step_post_hook(lambda *_: made.steps(1))
    for _ in range(4):
        optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
        optimizer.step()
    handle.remove()
    (told,) = made.told()
    table = rows(made.spool / told["file"], told)["operators"]
    kinds = texts(table["kind"])
    (step,) = [at for at, kind in enumerate(kinds) if kind == "annotation"]
    end = int(table["time"][step] + table["duration"][step]) - 10**18
    assert end == told["bounds"][-1]


def write(path, events: list[dict]) -> None:
    """Write a file as the recorder does on a machine with an accelerator."""
    columns = (
        ("name", "i"), ("kind", "i"), ("start", "q"), ("duration", "q"), ("thread", "q"),
        ("device", "q"), ("correlation", "q"), ("bytes", "q"), ("on_device", "b"),
    )  # fmt: skip
    names = sorted({event["name"] for event in events})
    kinds = sorted({event["kind"] for event in events})
    head = {"count": len(events), "columns": columns, "names": names, "kinds": kinds, "details": []}
    with open(path, "wb") as file:
        file.write(json.dumps(head).encode() + b"\n")
        for column, code in columns:
            known = {"name": names, "kind": kinds}.get(column)
            values = [event.get(column, 0) for event in events]
            array(code, [known.index(value) for value in values] if known else values).tofile(file)


def device_events() -> list[dict]:
    def one(name, kind, start, duration, **more):
        return {"name": name, "kind": kind, "start": start, "duration": duration, "thread": 7, **more}

    nccl = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    return [
        one("aten::mm", "cpu_op", 1010, 50),
        one("cudaLaunchKernel", "cuda_runtime", 1020, 5, correlation=11),
        one("cudaMemcpyAsync", "cuda_runtime", 1090, 5, correlation=12),
        one("cudaStreamSynchronize", "cuda_runtime", 1096, 30, correlation=13),
        one("cudaEventQuery", "cuda_runtime", 1150, 1, correlation=14),
        one("gemm", "kernel", 1150, 40, thread=3, device=1, correlation=11, on_device=1),
        one(nccl, "kernel", 1160, 30, thread=9, device=1, correlation=0, on_device=1),
        one("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 1120, 8, device=1, thread=3, correlation=12,
            bytes=4096, on_device=1),
        one("Memset (Device)", "gpu_memset", 1130, 2, device=1, thread=3, bytes=64, on_device=1),
        one("cuda sync", "cuda_sync", 1130, 2, device=1, thread=3, on_device=1),
    ]  # fmt: skip


def test_kernels_copies_launches_and_waits_come_apart(tmp_path):
    write(tmp_path / "raw", device_events())
    told = {"first_step": 5, "last_step": 7, "bounds": [1000, 1100, 1200], "parameters": {},
            "wall_minus_monotonic": 0}  # fmt: skip
    found = rows(tmp_path / "raw", told)
    kernels = found["kernels"]
    assert texts(kernels["kind"]) == ["compute", "communication"]
    assert texts(kernels["collective"]) == ["", "allreduce"]
    assert kernels["stream"].tolist() == [3, 9]
    assert kernels["device"].tolist() == [1, 1]
    # The kernel ran in step 6, but step 5 launched it; nothing launched the collective that we know of.
    assert kernels["step"].tolist() == [5, 6]
    assert kernels["correlation"].tolist() == [11, 0]
    assert texts(found["launches"]["name"]) == ["cudaLaunchKernel", "cudaMemcpyAsync"]
    assert found["launches"]["correlation"].tolist() == [11, 12]
    assert texts(found["syncs"]["kind"]) == ["stream"]
    memory = found["memory_operations"]
    assert texts(memory["kind"]) == ["h2d", "memset"]
    assert texts(memory["memory"]) == ["pinned", ""]
    assert memory["bytes"].tolist() == [4096, 64]
    assert memory["step"].tolist() == [5, 6]
    operators_table = found["operators"]
    assert dict(zip(texts(operators_table["name"]), texts(operators_table["kind"]), strict=True)) == {
        "aten::mm": "operator",
        "cudaEventQuery": "runtime",
        "cuda sync": "runtime",
    }


@pytest.mark.parametrize(
    ("name", "kind", "memory"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "h2d", "pageable"),
        ("Memcpy DtoH (Device -> Pinned)", "d2h", "pinned"),
        ("Memcpy DtoD (Device -> Device)", "d2d", ""),
        ("Memcpy PtoP (Device -> Device)", "p2p", ""),
        ("Memcpy HtoA (Pageable -> Array)", "h2d", "pageable"),
        ("Memset (Device)", "memset", ""),
    ],
)
def test_what_the_name_of_a_copy_says(name, kind, memory):
    assert operators.copy_kind(name) == (kind, memory)


@pytest.mark.parametrize("cut", [0, 1, 40, 300, -1])
def test_a_damaged_file_is_a_clear_error_and_nothing_else(tmp_path, cut):
    path = tmp_path / "raw"
    write(path, device_events())
    path.write_bytes(path.read_bytes()[:cut])
    told = {"first_step": 5, "last_step": 7, "bounds": [1000, 1100, 1200], "parameters": {},
            "wall_minus_monotonic": 0}  # fmt: skip
    with pytest.raises(ValueError, match=r"."):
        rows(path, told)


def test_what_a_device_does_after_it_was_waited_for_is_left_out(tmp_path):
    write(tmp_path / "raw", device_events())
    told = {"first_step": 5, "last_step": 7, "bounds": [1000, 1100, 1140], "parameters": {},
            "wall_minus_monotonic": 0}  # fmt: skip
    assert len(rows(tmp_path / "raw", told, stop_ns=15)["kernels"]["time"]) == 1
    assert len(rows(tmp_path / "raw", told, stop_ns=50)["kernels"]["time"]) == 2


def test_the_training_goes_on_while_its_window_is_written(train, monkeypatch):
    monkeypatch.setattr(_events, "AT_ONCE", 50)  # a thousand times and more is the interpreter let go
    made = train(json.dumps({"requests": [{"profiler": "operators", "start_step": 1, "steps": 1}]}))
    made.steps(1)
    for _ in range(50_000):
        torch.ones(3)
    made.session.next_step(time.perf_counter_ns())
    (ending,) = [thread for thread in threading.enumerate() if thread.name == "holter-window"]
    went_on = 0
    while ending.is_alive():
        torch.ones(3)
        went_on += 1
    assert went_on > 100
    (told,) = made.told()
    # The end of torch's profiler, for which the training waits, is part of no step.
    assert made.session.since == told["bounds"][-1] + told["stop_ns"]
    table = rows(made.spool / told["file"], told)["operators"]
    assert texts(table["name"]).count("aten::ones") == 50_000


def test_a_window_that_takes_too_much_memory_is_cut_short(train, monkeypatch):
    monkeypatch.setattr(profiler, "MAX_GROWTH", -(1 << 40))  # any is too much: freed memory is used again
    made = train(json.dumps({"requests": [{"profiler": "operators", "start_step": 1, "steps": 100}]}))
    made.steps(6)
    (told,) = made.told()
    assert (told["first_step"], told["last_step"]) == (1, 3)
    assert "GiB of memory" in told["cut"]
    assert not torch.autograd.profiler._is_profiler_enabled


def test_a_window_is_cut_short_where_little_memory_is_left(train, monkeypatch):
    """When it ends, torch takes five times what it took while it collected."""
    monkeypatch.setattr(profiler, "available", lambda: 1 << 20)
    made = train(json.dumps({"requests": [{"profiler": "operators", "start_step": 1, "steps": 100}]}))
    held = []
    for _ in range(4):
        held.append(b"x" * (80 << 20))  # so much never lies in memory that was used before
        made.steps(1)
    (told,) = made.told()
    assert (told["first_step"], told["last_step"]) == (1, 3)
    assert "5 times as much" in told["cut"]


def test_times_are_those_of_the_clock(train):
    spans = []

    def work(step):
        begin = time.perf_counter_ns()
        with torch.profiler.record_function("mine"):
            time.sleep(0.01)
        spans.append((begin, time.perf_counter_ns()))

    _, found = trained(train, work)
    table = found["operators"]
    mine = [at for at, name in enumerate(texts(table["name"])) if name == "mine"]
    begins, durations = table["time"][mine] - 10**18, table["duration"][mine]
    for begin, duration, (least, most) in zip(begins, durations, spans[2:5], strict=True):
        # Torch's clock is another one than ours; both are brought together once a window.
        assert least - 10**6 <= begin
        assert begin + duration <= most + 10**6
        assert duration >= 10**7


def test_threads_of_the_script_are_left_alone(train):
    """torch writes into freed memory if a thread that it watches runs an operator while a window ends."""

    def work(step):
        def one():
            for _ in range(100):
                torch.ones(3).cos()

        started = [threading.Thread(target=one) for _ in range(4)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        torch.ones(3).sin()

    _, found = trained(train, work)
    names = texts(found["operators"]["name"])
    assert names.count("aten::cos") == 0
    assert names.count("aten::ones") == names.count("aten::sin") == 3


def test_windows_begin_and_end_while_other_threads_compute(train):
    made = train()
    enough = threading.Event()

    def compute():
        while not enough.is_set():
            with torch.profiler.record_function("other"):
                torch.ones(10).cos()

    threads = [threading.Thread(target=compute) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            made.ask({"profiler": "operators", "steps": 1})
            made.steps(1)
            torch.ones(10).sin()
            made.steps(1)
    finally:
        enough.set()
        for thread in threads:
            thread.join()
    windows = made.told()
    assert len(windows) == 10
    for told in windows:
        table = rows(made.spool / told["file"], told)["operators"]
        assert texts(table["name"]).count("aten::sin") == 1


def test_more_names_than_a_recorder_keeps_apart(train):
    """A window has as many names as its ranges: the limit of the spool's names is not its own."""

    def work(step):
        if step == 2:
            for number in range(70_000):
                with torch.profiler.record_function(f"range {number}"):
                    pass

    _, found = trained(train, work)
    assert len(set(texts(found["operators"]["name"]))) == 70_000


@pytest.mark.parametrize("stacks", [True, False])
def test_ranges_that_are_open_across_windows_of_a_step_each(train, stacks):
    """They would end under another profiler than the one that saw them begin."""
    made = train()
    made.ask(*[{"profiler": "operators", "steps": 1, "parameters": {"stacks": stacks}}] * 8)
    for _ in range(20):
        with torch.profiler.record_function("outer"):
            torch.ones(1000).cos()
            made.steps(1)
    assert [first for _, first, _ in made.ranges()] == [1, 3, 5, 7, 9, 11, 13, 15]


def test_activities_tell_what_events_tell(train, monkeypatch):
    """Versions of torch that can leave out its events are asked for activities alone."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())

    def work(step):
        with torch.profiler.record_function("mine"):
            model(torch.ones(3, 4)).sum().backward()

    def seen():
        told, found = trained(train, work)
        table = found["operators"]
        return told["events"], sorted(
            zip(texts(table["name"]), texts(table["kind"]), table["step"].tolist(), strict=True)
        )

    if not hasattr(torch._C._autograd._ProfilerResult, "trace_activities"):
        pytest.skip("this torch always makes events")
    first = seen()
    taken = profiler._frugal
    monkeypatch.setattr(profiler, "_frugal", lambda torch, **_: taken(torch, stacks=False, shapes=True))
    assert seen() == first
    assert ("mine", "annotation", 3) in first[1]
