"""Data loading: stages of the wait, what the dataset called, and why the training waits."""

from __future__ import annotations

import math

import pytest
from tests.generated.story import story

from holter.analysis.loading.dataloading import DataLoading, causes, loaders, stages
from holter.analysis.loading.stacks import callables, entry, frames, stage
from holter.analysis.steps.steps import steps
from holter.schema.table import Table

OWN = "Photos.__getitem__ (train.py:86)"


@pytest.mark.parametrize(
    ("stack", "name", "kind"),
    [
        (f"{OWN};decode_photo (train.py:43);Image.convert (PIL/Image.py:900)", "decode_photo", "decode"),
        (f"{OWN};load (train.py:3);ImageFile.load (PIL/ImageFile.py:200)", "load", "decode"),
        (f"{OWN};slow_transform (t.py:48);quantile (numpy/q.py:1)", "slow_transform", "transform"),
        (f"{OWN};shrink (train.py:9);Image.resize (PIL/Image.py:2000)", "shrink", "transform"),
        (f"{OWN};Path.read_bytes (pathlib.py:1050)", "Path.read_bytes", "read"),
        (f"{OWN};fetch_shard (train.py:8);S3File.read (fsspec/spec.py:1941)", "fetch_shard", "read"),
        (f"{OWN};loads (json/__init__.py:299);JSONDecoder.decode (json/decoder.py:337)", "loads", "decode"),
        (f"{OWN};read_table (pyarrow/parquet/core.py:1)", "read_table", "decode"),
        (f"{OWN};Compose.__call__ (c.py:20);Mix.__call__ (a.py:8)", "Mix.__call__", "transform"),
        (
            f"{OWN};Compose.__call__ (torchvision/transforms/transforms.py:95);"
            "Module._wrapped_call_impl (torch/nn/modules/module.py:1);"
            "Module._call_impl (torch/nn/modules/module.py:2);"
            "RandomCrop.forward (torchvision/transforms/transforms.py:600);pad (functional.py:1)",
            "RandomCrop.forward",
            "transform",
        ),
        (f"{OWN};<lambda> (train.py:20);jitter (train.py:30)", "jitter", "transform"),
        (f"Subset.__getitem__ (torch/utils/data/dataset.py:1);{OWN};crop (train.py:5)", "crop", "transform"),
        (
            "Subset.__getitems__ (torch/utils/data/dataset.py:1);<listcomp> (torch/utils/data/dataset.py:2);"
            f"{OWN};crop (train.py:5)",
            "crop",
            "transform",
        ),
        (f"{OWN};warp (t.py:5);Lookup.__getitem__ (grid.py:7);interpolate (grid.py:9)", "warp", "transform"),
        ("fetch (torch/utils/data/_utils/fetch.py:5);Rows.all (s.py:3);split (s.py:9)", "split", "transform"),
        ("Rows.all (s.py:3);parse_row (s.py:9)", "parse_row", "decode"),
        ("Stream.__iter__ (s.py:3);readline (s.py:9)", "readline", "read"),
        ("__getitem__ (t.py:1);__call__ (compose.py:2);__call__ (augment.py:3)", "__call__", "transform"),
        (
            "IterableDataset.__iter__ (datasets/iterable_dataset.py:2546);"
            "MappedExamplesIterable.__iter__ (datasets/iterable_dataset.py:1235);"
            "MappedExamplesIterable._iter.apply_function (datasets/iterable_dataset.py:1332);tokens (a.py:4)",
            "tokens",
            "transform",
        ),
        (
            f"{OWN};_disable_dynamo.inner (torch/_compile.py:42);"
            "DisableContext.__call__._fn (torch/_dynamo/eval_frame.py:1423);manual_seed (torch/random.py:49)",
            "manual_seed",
            "transform",
        ),
        (OWN, "Photos.__getitem__", "transform"),
        ("(other)", "(other)", "transform"),
    ],
)  # fmt: skip
def test_the_callable_that_works_is_named_and_its_stage(stack, name, kind):
    found = entry(frames(stack))
    assert found is not None
    assert found.qualname == name
    assert stage(frames(stack)) == kind


def test_old_pythons_know_no_owner_of_a_call():
    stack = "__getitem__ (t.py:1);__call__ (compose.py:2);__call__ (augment.py:3)"
    found = entry(frames(stack))
    assert found is not None
    assert found.file == "augment.py"


def test_shares_of_callables_add_up():
    found = callables([
        (f"{OWN};decode (t.py:1)", 30.0), (f"{OWN};decode (t.py:1);inner (t.py:9)", 20.0),
        (f"{OWN};crop (t.py:5)", 40.0),
        ("Photos.__getitem__ (train.py:87)", 6.0), ("Photos.__getitem__ (train.py:88)", 4.0), ("", 5.0),
    ])  # fmt: skip
    assert [(c.name, c.fetch_pct) for c in found] == [
        ("decode (t.py:1)", 50), ("crop (t.py:5)", 40),
        ("Photos.__getitem__ (train.py:87)", 6), ("Photos.__getitem__ (train.py:88)", 4),
    ]  # fmt: skip
    assert callables([]) == []


def test_a_collate_function_is_a_callable_unless_it_is_pytorchs_own():
    joins = [("pad (train.py:9)", 60.0), ("default_collate (collate.py:338)", 20.0)]
    found = callables([(f"{OWN};decode (t.py:1)", 20.0)], joins)
    assert [(c.name, c.stage, c.fetch_pct) for c in found] == [
        ("pad (train.py:9)", "collate", 60), ("decode (t.py:1)", "decode", 20),
    ]  # fmt: skip


def test_stages_of_the_worked_case():
    job = story("before", samples=10)
    found = stages(job.spans, steps(job.spans), loaders(job.events))
    worked = {"read": 6, "decode": 22, "transform": 28, "collate": 4, "queue": 0}
    assert found.stages == pytest.approx(worked, abs=0.5)
    assert sum(found.stages.values()) == pytest.approx(found.share_pct, abs=1e-6)
    assert (found.workers, found.pin_memory, found.prefetch_factor) == (4, False, 2)
    assert found.fetch_ms == pytest.approx(4000, rel=0.01)
    # 4 s of fetching behind 0.4 s of compute.
    assert found.needed_workers == 10
    assert found.busy_pct > 98
    assert causes(found, cpu_p50=85, iowait_p95=2) == ["too_few_workers"]


def test_workers_that_are_done_leave_the_queue():
    job = story("after", samples=10)
    found = stages(job.spans, steps(job.spans), loaders(job.events))
    assert found.stages["queue"] == pytest.approx(found.share_pct)
    assert found.busy_pct < 10
    assert causes(found, cpu_p50=55, iowait_p95=2) == []


def span(begin, end, phase, *, worker=-1, thread=0, value=math.nan, name="", step=-1):
    return {
        "time": begin, "duration": end - begin, "phase": phase, "rank": 0, "worker": worker, "thread": thread,
        "value": value, "name": name, "step": step, "mode": "train", "node": "n",
    }  # fmt: skip


def loop(count, wait=40, compute=60, index=0.0):
    """Steps of wait and compute, the batch being fetched in the training process."""
    rows = []
    for i in range(count):
        t = i * (wait + compute)
        rows += [
            span(t, t + wait + compute, "step", step=i),
            span(t, t + wait, "data_loading", value=index, step=i),
            span(t + wait, t + wait + compute, "forward", step=i),
        ]  # fmt: skip
    return rows


def test_without_workers_the_same_stages_come_from_the_training_process():
    rows = loop(20)
    for i in range(20):
        t = 100 * i
        rows += [
            span(t, t + 38, "fetch"), span(t + 30, t + 38, "collate"),
            span(t + 15, t + 30, "stack", thread=1, name=f"{OWN};decode (t.py:1)"),
            span(t + 29, t + 44, "stack", thread=1, name=f"{OWN};crop (t.py:2)"),
        ]  # fmt: skip
    spans = Table.of("spans", rows)
    found = stages(spans, steps(spans), [{"index": 0, "workers": 0}])
    assert found.stages == pytest.approx({"decode": 15, "transform": 15, "collate": 8, "queue": 2}, abs=0.01)
    assert found.busy_pct is None
    assert "single_process" in causes(found, cpu_p50=None, iowait_p95=None)


def test_without_stack_samples_the_fetch_stays_whole():
    rows = loop(20) + [span(100 * i, 100 * i + 30, "fetch", worker=0) for i in range(20)]
    spans = Table.of("spans", rows)
    found = stages(spans, steps(spans), [])
    assert found.stages == pytest.approx({"fetch": 30, "collate": 0, "queue": 10}, abs=0.01)
    assert found.workers is None


def test_without_workers_work_there_are_no_stages():
    spans = Table.of("spans", loop(20))
    found = stages(spans, steps(spans), [])
    assert found.stages == {}
    assert found.share_pct == pytest.approx(40)
    assert stages(Table.empty("spans"), Table.empty("steps"), []) is None
    nothing = Table.of("spans", [span(0, 10, "step", step=0), span(10, 20, "step", step=1)])
    assert stages(nothing, steps(nothing), []) is None


def test_workers_of_another_loader_do_not_count():
    rows = loop(20, index=1.0)
    for i in range(20):
        t = 100 * i
        rows += [
            span(t, t + 40, "fetch", worker=0, name="loader 1"),
            span(t + 50, t + 90, "fetch", worker=0, name="loader 0"),
            span(t + 5, t + 6, "stack", worker=0, name=f"{OWN};decode (t.py:1)"),
            span(t + 55, t + 56, "stack", worker=0, name=f"{OWN};validate (t.py:1)"),
        ]  # fmt: skip
    spans = Table.of("spans", rows)
    found = stages(spans, steps(spans), [{"index": 0, "workers": 1}, {"index": 1, "workers": 3}])
    assert [c.name for c in found.callables] == ["decode (t.py:1)"]
    assert found.workers == 3


def test_the_start_of_an_evaluations_workers_is_its_own_number():
    rows = loop(20, wait=10, compute=90)
    for i in (5, 15):
        t = 100 * i + 10
        rows += [
            span(t, t + 20, "data_loading", value=1.0, name="iterator start", step=i),
            span(t + 20, t + 50, "data_loading", value=1.0, name="next batch", step=i),
            span(t + 55, t + 60, "data_loading", value=1.0, name="next batch", step=i),
        ]  # fmt: skip
    spans = Table.of("spans", rows)
    made = Table({name: column.copy() for name, column in steps(spans).columns.items()})
    made["eval"][[5, 15]] = 60
    found = stages(spans, made, [{"index": 0, "workers": 2}, {"index": 1, "workers": 2}])
    assert found.evaluation_start_pct == pytest.approx(100 * 100 / 1900)  # the first step warms up
    without = stages(spans, made, [{"index": 0, "workers": 2}, {"index": 1, "workers": 0}])
    assert without.evaluation_start_pct == 0


def test_waits_in_every_kth_step_are_periodic_and_at_epochs_workers_end_and_start():
    def waiting(waits, workers=4):
        rows, t = [], 0
        for i, wait in enumerate(waits):
            anew = {200: [("iterator start", 0, 60), ("iterator end", 60, 90), ("next batch", 90, 200)]}
            rows.append(span(t, t + wait + 60, "step", step=i))
            rows += [
                span(t + begin, t + end, "data_loading", value=0, name=name, step=i)
                for name, begin, end in (anew if i % 25 == 0 else {}).get(wait, [("next batch", 0, wait)])
            ]
            t += wait + 60
        spans = Table.of("spans", rows)
        facts = [{"index": 0, "workers": workers, "persistent_workers": False}]
        return stages(spans, steps(spans), facts)

    assert causes(waiting([5, 5, 5, 200] * 20), cpu_p50=None, iowait_p95=None) == ["periodic"]
    epochs = waiting(([200] + [5] * 24) * 4)
    # Four steps of 100 restart workers for 200 ns; the first one is warm-up.
    assert epochs.restart_ms == pytest.approx(3 * 200 / 99 / 1e6)
    assert epochs.restarts
    assert not epochs.periodic
    assert waiting(([200] + [5] * 24) * 4, workers=0).restart_ms == 0
    even = waiting([50] * 60)
    assert even.restart_ms == 0
    assert not even.restarts
    assert not even.periodic


def test_causes_from_the_machine():
    plain = DataLoading(
        share_pct=50, stages={"read": 30, "decode": 10, "collate": 10}, workers=4, busy_pct=95
    )
    assert causes(plain, cpu_p50=95, iowait_p95=1) == ["cpu_saturated", "io_wait", "too_few_workers"]
    waits = DataLoading(share_pct=50, stages={"decode": 40}, workers=4, busy_pct=50)
    assert causes(waits, cpu_p50=50, iowait_p95=40) == ["io_wait"]


def test_facts_of_loaders_that_cannot_be_read_are_left_out():
    events = Table.of("events", [
        {"time": 1, "rank": 0, "kind": "loader", "detail": '{"index": 0, "workers": 2}'},
        {"time": 1, "rank": 0, "kind": "loader", "detail": "{cut"},
        {"time": 1, "rank": 0, "kind": "process", "detail": "{}"},
    ])  # fmt: skip
    assert loaders(events) == [{"index": 0, "workers": 2, "rank": 0}]
