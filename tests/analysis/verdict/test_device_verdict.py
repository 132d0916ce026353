"""Each suspect in a trace made for it; the innocent; and real traces whose trouble is known."""

from __future__ import annotations

import pytest
from tests.analysis.kineto import given, load
from tests.rules.tables import START
from tests.rules.traces import MS, US, Trace

from holter.analysis.verdict.device_facts import device_facts
from holter.analysis.verdict.device_verdict import verdict
from holter.analysis.verdict.evidence import pct, us
from holter.analysis.verdict.job_verdict import SUSPECTS
from holter.analysis.verdict.result import Verdict
from holter.schema.table import Table

STEPS = 8


class Loop(Trace):
    """Steps of 10 ms on one thread; kernels of 100 us, asked for just before they can run."""

    def __init__(self) -> None:
        super().__init__()
        self.spans = [
            {"time": START + n * 10 * MS, "duration": 10 * MS, "rank": 0, "step": n, "phase": "step"}
            for n in range(STEPS)
        ]

    def compute(self, step: int, at: float, length: float, *, launched: float | None = None) -> None:
        """Run kernels of 100 us back to back; asked for ahead unless told when."""
        begin = step * 10 * MS + at
        for i in range(round(length / (100 * US))):
            when = begin + i * 100 * US
            self.kernel(when, 100 * US, launched=when - 90 * US if launched is None else launched)

    def host(self, name: str, at: float, length: float, kind: str = "annotation") -> None:
        self.operator(name, at, length)
        self.rows["operators"][-1] |= {"kind": kind, "thread": 1}

    @property
    def tables(self) -> dict[str, Table]:
        return {**super().tables, "spans": Table.of("spans", self.spans)}

    def judged(self) -> Verdict:
        found = verdict(self.tables)
        assert found.suspect in SUSPECTS
        return found


def test_waiting_for_batches() -> None:
    loop = Loop()
    for n in range(STEPS):
        loop.host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", n * 10 * MS, 4 * MS)
        loop.compute(n, 4.1 * MS, 5.9 * MS)
    found = loop.judged()
    assert found.suspect == "data_pipeline"
    assert "it idles 40 % of each step (10 ms)" in found.sentence
    assert found.advice[0].expected_step_ms == pytest.approx(6, abs=0.2)


def test_batches_that_load_while_the_accelerator_works_are_no_trouble() -> None:
    loop = Loop()
    for n in range(STEPS):
        loop.host("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", n * 10 * MS, 4 * MS)
        loop.compute(n, 0, 10 * MS, launched=max(n - 1, 0) * 10 * MS + 8 * MS)
    found = loop.judged()
    assert found.suspect in ("healthy", "model_compute")


def test_copies_to_one_accelerator_do_not_hold_up_another() -> None:
    loop = Loop()
    for n in range(STEPS):
        loop.compute(n, 0, 10 * MS, launched=n * 10 * MS - MS)
        loop.kernel(n * 10 * MS, 8 * MS, launched=n * 10 * MS - MS)
        loop.rows["kernels"][-1] |= {"device": 1}
        loop.copy(n * 10 * MS + 8 * MS, 2 * MS)  # to device 0, while 1 has nothing to do
    assert device_facts(loop.tables).h2d_pct == 0


def test_words() -> None:
    assert [pct(value) for value in (0, 1e-5, 0.04, 60)] == ["0 %", "under 0.01 %", "0.04 %", "60 %"]
    assert [us(value) for value in (9.0, 9000.0)] == ["9 us", "9 ms"]
    loop = Loop()
    loop.compute(0, 0, 100 * US)
    assert loop.judged().sentence.startswith("The trace has only 1 kernel,")


def test_copies_from_the_host() -> None:
    loop = Loop()
    for n in range(STEPS):
        loop.copy(n * 10 * MS, 3 * MS)
        loop.compute(n, 3 * MS, 7 * MS)
    found = loop.judged()
    assert found.suspect == "data_pipeline"
    assert "Copying input" in found.sentence
    assert any("pin_memory" in advice.text for advice in found.advice)


def test_exposed_communication_of_one_rank() -> None:
    loop = Loop()
    for n in range(STEPS):
        loop.compute(n, 0, 7 * MS)
        loop.collective(n * 10 * MS + 5 * MS, 5 * MS)
    found = loop.judged()
    assert found.suspect == "communication"
    assert found.share_pct == pytest.approx(30, abs=1)
    assert "Import the traces of the other ranks" in found.sentence
    assert "the other ranks' traces" in found.missing


def test_hidden_communication_is_no_trouble() -> None:
    loop = Loop()
    for n in range(STEPS):
        loop.compute(n, 0, 10 * MS)
        loop.collective(n * 10 * MS + MS, 8 * MS)
    found = loop.judged()
    assert found.suspect == "model_compute"
    assert any("hidden" in out["because"] for out in found.ruled_out if out["suspect"] == "communication")


def test_a_host_that_cannot_keep_up_and_what_it_does() -> None:
    loop = Loop()
    for n in range(STEPS):
        for i in range(20):
            at = n * 10 * MS + i * 500 * US
            loop.host("aten::slow", at, 480 * US, "operator")
            loop.kernel(at + 490 * US, 10 * US, launched=at + 470 * US)
    found = loop.judged()
    assert found.suspect == "framework_overhead"
    assert any("aten::slow" in item.text for item in found.evidence)
    assert "Python stacks: with_stack=True" in found.missing


def test_waits_for_results_are_told_apart() -> None:
    loop = Loop()
    for n in range(STEPS):
        for i in range(10):
            at = n * 10 * MS + i * MS
            loop.kernel(at, 100 * US, launched=at - 50 * US)
            loop.sync(at - 40 * US, 200 * US)
    found = loop.judged()
    assert found.suspect == "framework_overhead"
    assert "waits for results" in found.sentence
    assert ".item()" in found.advice[0].text


def test_allocation() -> None:
    loop = Loop()
    for n in range(STEPS):
        loop.host("cudaFree", n * 10 * MS, 3 * MS, "runtime")
        loop.compute(n, 3 * MS, 7 * MS)
    found = loop.judged()
    assert found.suspect == "memory_pressure"
    assert "cudaFree" in found.sentence


def test_checkpoints() -> None:
    loop = Loop()
    for n in range(STEPS):
        loop.host("torch/serialization.py(912): save", n * 10 * MS, 3 * MS, "python")
        loop.compute(n, 3 * MS, 7 * MS)
    assert loop.judged().suspect == "checkpointing"


def test_two_troubles_alike_are_mixed() -> None:
    loop = Loop()
    for n in range(STEPS):
        loop.host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", n * 10 * MS, 3 * MS)
        loop.compute(n, 3.1 * MS, 4 * MS)
        loop.collective(n * 10 * MS + 7.1 * MS, 2.9 * MS)
    found = loop.judged()
    assert found.suspect == "mixed"
    assert set(found.also) == {"data_pipeline", "communication"}


def test_a_busy_accelerator_is_healthy() -> None:
    loop = Loop()
    for n in range(STEPS):
        loop.compute(n, 0, 8.6 * MS, launched=max(n * 10 - 3, 0) * MS)
    assert loop.judged().suspect == "healthy"


def test_idle_although_work_was_asked_for_is_not_guessed_at() -> None:
    loop = Loop()
    for n in range(STEPS):
        for i in range(10):
            loop.kernel(n * 10 * MS + i * MS, 100 * US, launched=0)
    found = loop.judged()
    assert found.suspect == "inconclusive"
    assert "does not show" in found.sentence


def test_a_handful_of_kernels_is_no_ground() -> None:
    loop = Loop()
    loop.compute(0, 0, MS)
    found = loop.judged()
    assert found.suspect == "inconclusive"
    assert "only 10 kernels" in found.sentence


def test_nothing_is_said_of_nothing() -> None:
    assert verdict({}).suspect == "inconclusive"


@pytest.mark.parametrize(("waiting", "suspect"), [(4 * MS, "communication"), (MS // 2, "inconclusive")])
def test_timelines_of_horovod_tell_waiting_from_moving(waiting: int, suspect: str) -> None:
    loop = Loop()
    for n in range(STEPS):
        loop.host("NEGOTIATE_ALLREDUCE", n * 10 * MS, waiting // 2, "operator")
        loop.host("NEGOTIATE_ALLREDUCE", n * 10 * MS + waiting // 2, waiting // 2, "operator")
        loop.host("ALLREDUCE", n * 10 * MS + 5 * MS, MS, "operator")
    found = loop.judged()
    assert found.suspect == suspect
    assert "exchange" in found.sentence


KNOWN = {
    "kineto/resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz": "data_pipeline",
    "kineto/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz": "framework_overhead",
    "hta/ns_resolution_trace_rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": "model_compute",
    "tracelens/mi300_ddp_resnet18_no_pool_train_resnet18.json.gz": "memory_pressure",
    "tracelens/mi300_resnet_act_checkpoint.json.gz": "communication",
    "tracelens/b200_eager_trace.json.gz": "framework_overhead",
}


@pytest.mark.parametrize("name", KNOWN)
def test_real_traces_whose_trouble_is_known(name: str) -> None:
    found = verdict(load(given("traces", *name.split("/"))))
    assert found.suspect == KNOWN[name]
    loading = next((out for out in found.ruled_out if out["suspect"] == "data_pipeline"), None)
    assert loading is None or found.suspect != "data_pipeline"
