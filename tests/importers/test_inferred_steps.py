"""Steps of traces that mark none: from loaders, optimizers and repetition; and where nothing shows any."""

from __future__ import annotations

import json

import pytest

from holter.cli.foreign_traces import describe_paths
from holter.importers import import_paths
from holter.importers.inferred_steps import LOADER, OPTIMIZER
from holter.store import job
from holter.store.trial import Trial
from holter.views.comparison.changes import changes
from holter.views.comparison.document import compare

START = 1_700_000_000_000_000
"""us."""
STEP = 10_000


def event(cat: str, name: str, at: float, dur: float, **args: object) -> dict[str, object]:
    where = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 9, "tid": 9}
    return {"ph": "X", "cat": cat, "name": name, "ts": START + at, "dur": dur, "args": args, **where}


class Loop:
    """A training loop: a wait for the batch, kernels, and the step of the optimizer."""

    def __init__(self, *, marks: tuple[str, ...] = (LOADER, OPTIMIZER)) -> None:
        self.events: list[dict[str, object]] = []
        self.at = 0.0
        self.launched = 0
        self.marks = marks

    def kernel(self, name: str, dur: float = 100) -> None:
        self.launched += 1
        linked = {"correlation": self.launched}
        self.events += [
            event("cuda_runtime", "cudaLaunchKernel", self.at, 5, **linked),
            event("kernel", name, self.at + 6, dur, device=0, stream=7, **linked),
        ]
        self.at += dur + 6

    def range(self, name: str, dur: float) -> None:
        if name.startswith(self.marks or ("no mark",)):
            self.events.append(event("user_annotation", name, self.at, dur))
        self.at += dur

    def step(self, *, wait: float = 3000, slow: float = 0, kernels: int = 40) -> None:
        self.range(f"{LOADER}_SingleProcessDataLoaderIter.__next__", wait)
        self.at += slow
        for n in range(kernels):
            self.kernel(f"kernel_{n % 11}" if n else "first_layer")
        self.range(f"{OPTIMIZER}SGD.step", 50)

    def written(self, tmp_path, name="trace.json"):
        path = tmp_path / name
        path.write_text(json.dumps({"traceEvents": self.events}))
        return path


def described(path):
    return describe_paths([str(path)])


@pytest.mark.parametrize(
    ("marks", "source", "steps"),
    [
        ((LOADER, OPTIMIZER), f"{LOADER} and {OPTIMIZER}", 6),
        ((OPTIMIZER,), OPTIMIZER, 5),
        ((LOADER,), LOADER, 5),
        ((), "the repetition of 40 kernels", 6),
    ],
)
def test_steps_come_from_marks_else_from_repetition(tmp_path, marks, source, steps):
    loop = Loop(marks=marks)
    for _ in range(6):
        loop.step()
    found = described(loop.written(tmp_path))
    assert found["steps"]["count"] == steps
    assert found["steps"]["inferred_from"] == source
    assert found["steps"]["p50_ms"] == pytest.approx(7.3, abs=0.1)
    assert any(f"inferred from {source}" in fact["text"] for fact in found["verdict"]["evidence"])
    assert not any("profiler.step" in text for text in found["verdict"]["missing"])


@pytest.mark.parametrize("marks", [(LOADER, OPTIMIZER), ()])
def test_the_first_iteration_does_not_decide(tmp_path, marks):
    """It takes 507 of 551 ms; in the others the accelerator waits for batches."""
    loop = Loop(marks=marks)
    loop.step(slow=500_000)
    for _ in range(6):
        loop.step()
    found = described(loop.written(tmp_path))
    if marks:
        assert found["verdict"]["suspect"] == "data_pipeline"
        assert found["breakdown"]["data_loading"] == pytest.approx(41, abs=2)
        startup = next(fact for fact in found["verdict"]["evidence"] if fact["metric"] == "startup")
        assert "the first step takes 507 ms" in startup["text"]
        assert (found["steps"]["count"], found["steps"]["warmup"]) == (7, 1)
    assert found["steps"]["p50_ms"] == pytest.approx(7.3, abs=0.1)
    assert found["breakdown"]["compute"] == pytest.approx(56, abs=4)


def test_several_optimizers_and_accumulated_batches_are_one_step(tmp_path):
    loop = Loop()
    for _ in range(4):
        loop.step()
        loop.range(f"{OPTIMIZER}Adam.step", 40)
    assert described(loop.written(tmp_path))["steps"]["count"] == 4
    loop = Loop()
    for n in range(12):
        loop.range(f"{LOADER}_MultiProcessingDataLoaderIter.__next__", 10)
        for k in range(20):
            loop.kernel(f"kernel_{k}")
        if n % 3 == 2:
            loop.range(f"{OPTIMIZER}SGD.step", 50)
    assert described(loop.written(tmp_path, "other.json"))["steps"]["count"] == 4


def test_layers_and_random_kernels_are_no_steps(tmp_path):
    loop = Loop(marks=())
    for _ in range(12):
        for n in range(20):
            loop.kernel(f"layer_{n}")
    for n in range(4):
        loop.kernel(f"head_{n}")
    assert described(loop.written(tmp_path))["steps"] is None
    loop = Loop(marks=())
    for n in range(300):
        loop.kernel(f"kernel_{(n * n + n // 7) % 23}")
    assert described(loop.written(tmp_path, "other.json"))["steps"] is None


def test_outer_operators_show_the_steps_of_a_trace_without_kernels(tmp_path):
    loop = Loop(marks=())
    for _ in range(5):
        for n in range(12):
            loop.events.append(event("cpu_op", f"aten::op_{n}", loop.at, 90))
            loop.events.append(event("cpu_op", "aten::inner", loop.at + 5, 20))
            loop.at += 100
        loop.at += 300
    found = described(loop.written(tmp_path))
    assert found["steps"]["count"] == 5
    assert found["steps"]["inferred_from"] == "the repetition of 12 operators"


def test_two_traces_are_compared_by_name(tmp_path):
    def trace(name, *, fused):
        loop = Loop(marks=())
        for n in range(60):
            loop.kernel(f"gemm_{n * n}")
            if not fused:
                loop.kernel("void at::native::elementwise_kernel<4, at::native::AddFunctor<float>>(int)", 300)
        if fused:
            loop.kernel("triton_fused_add", 900)
        folder = job.create(
            str(tmp_path / "store"),
            name,
            command=["holter", "import", name],
            interval_ms=1,
            rules=[],
            now_ns=0,
        )
        report = import_paths([loop.written(tmp_path, f"{name}.json")], folder)
        folder.update(status="Completed", imported=report.said(), start=0, end=1)
        return Trial(folder)

    document = compare([trace("before", fused=False), trace("after", fused=True)])
    (change,) = document["changes"]
    by_name = {one["name"]: one for one in change["traces"]["names"] if one["side"] == "device"}
    gone, new = by_name["elementwise_kernel<AddFunctor>"], by_name["triton_fused_add"]
    assert (gone["change"], gone["calls_before"], gone["calls_after"]) == ("deleted", 60, 0)
    assert gone["ms_before"] == pytest.approx(18)
    assert (new["change"], new["ms_after"]) == ("added", pytest.approx(0.9))
    assert change["traces"]["per"] == "trace"
    lines = list(changes(change))
    assert lines[0] == "accelerator busy: 24 ms per trace before, 6.9 ms after"
    assert lines[1] == "kernels disappeared: elementwise_kernel<AddFunctor> (60 x, 18 ms)"
    assert lines[2] == "kernels appeared: triton_fused_add (1 x, 0.9 ms)"
    assert not any("holter run" in line for line in lines)
    assert any("call profiler.step()" in line for line in lines)
