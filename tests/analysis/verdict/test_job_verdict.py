"""The verdict: the worked case "which of four suspects?", its siblings, and jobs that say little."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.analysis.verdict.facts import facts_of, told
from tests.generated.story import SCENARIOS

from holter.analysis.machine.load import Load
from holter.analysis.steps.steps import steps
from holter.analysis.verdict.evidence import part_name
from holter.analysis.verdict.gathering import gather
from holter.analysis.verdict.job_facts import VerdictFacts
from holter.analysis.verdict.job_verdict import SUSPECTS, verdict
from holter.analysis.verdict.profiled_steps import KernelTimes
from holter.schema.table import Table


def test_before_it_is_the_data_pipeline():
    found = verdict(facts_of("before"))
    assert found.suspect == "data_pipeline"
    assert found.share_pct == pytest.approx(60, abs=1)
    assert "60 %" in found.sentence
    assert "read_row_group (pyarrow/parquet/core.py:467) 22 %" in found.sentence
    assert "MixHistory.__call__ (recommender/augment.py:88) 28 %" in found.sentence
    excluded = {item["suspect"]: item["because"] for item in found.ruled_out}
    assert "41 %" in excluded["model_compute"]
    assert "0 %" in excluded["communication"]
    assert "60 %" in excluded["framework_overhead"]
    assert {item.metric: round(item.value) for item in found.evidence if item.where == "node-0"} == {
        "gpu.util": 41, "cpu.util": 85,
    }  # fmt: skip


def test_before_the_advice_says_what_each_change_brings():
    advice = verdict(facts_of("before")).advice
    expected = [a.expected_step_ms for a in advice]
    assert expected == sorted(expected)
    # Everything but reading prepared ahead: 0.4 s of compute remain, which the four workers keep up with.
    assert expected[0] == pytest.approx(400, rel=0.01)
    assert "MixHistory" in advice[0].text
    assert "read_row_group" in advice[0].text
    # Half of 3.84 s is the augmentation: (4 - 1.92) s over 4 workers.
    assert next(
        a for a in advice if "MixHistory" in a.text and "read_row" not in a.text
    ).expected_step_ms == (pytest.approx(520, rel=0.01))
    # 96 cores at 85 % hold 9.6 more, which eight ranks share: one worker more each, not the six they need.
    assert next(a for a in advice if "num_workers" in a.text).text == "Raise num_workers from 4 to 5."


@pytest.mark.parametrize(
    ("breakdown", "advised"),
    [({"compute": 55.0, "backward": 41.0, "optimizer": 4.0}, True), ({"compute": 99.0, "other": 1.0}, False)],
)
def test_eager_steps_of_tensorflow_get_advice(breakdown, advised):
    facts = VerdictFacts(
        steady_steps=100, mean_step_ms=118.0, step_ms=118.0, breakdown=breakdown, device="cpu"
    )
    found = verdict(replace(facts, framework="tensorflow"))
    assert found.suspect == "healthy"
    assert ["@tf.function" in one.text for one in found.advice] == [True] * advised
    assert verdict(replace(facts, framework="pytorch")).advice == []


def test_after_it_is_healthy():
    found = verdict(facts_of("after"))
    assert found.suspect == "healthy"
    assert found.advice == []
    assert "88 %" in found.sentence
    assert facts_of("after").breakdown["data_loading"] < 20


@pytest.mark.parametrize(
    ("name", "suspect"),
    [("model", "model_compute"), ("communication", "communication"), ("framework", "framework_overhead")],
)
def test_the_other_suspects(name, suspect):
    found = verdict(facts_of(name))
    assert (found.suspect, found.also) == (suspect, [])
    assert found.evidence
    assert suspect not in {item["suspect"] for item in found.ruled_out}
    assert "data_pipeline" in {item["suspect"] for item in found.ruled_out}


def test_data_pipeline_and_communication_are_mixed():
    found = verdict(facts_of("mixed"))
    assert (found.suspect, found.also) == ("mixed", ["data_pipeline", "communication"])
    assert found.share_pct == pytest.approx(60, abs=1)
    assert {"data_loading", "communication"} <= {item.metric for item in found.evidence}


def test_the_slow_rank_is_named_with_what_it_is_slow_in():
    found = verdict(facts_of("straggler"))
    assert found.suspect == "communication"
    assert "Rank 3" in found.sentence
    assert "forward" in found.sentence
    assert not any(f"ank {r}" in found.sentence for r in range(8) if r != 3)
    assert found.advice[0].expected_step_ms == pytest.approx(700, rel=0.01)


def cpu_only(name: str, **changes) -> VerdictFacts:
    facts = facts_of(name)
    load = replace(facts.loads[0], gpus=0, gpu_p50=None, gpu_p95=None, **changes)
    return replace(facts, loads=[load])


def test_without_gpus_the_steps_decide():
    assert verdict(cpu_only("before")).suspect == "data_pipeline"
    assert verdict(cpu_only("after")).suspect == "healthy"
    assert verdict(cpu_only("communication")).suspect == "communication"


def test_without_samples_it_says_what_is_missing():
    job = told("before")
    found = verdict(gather(steps(job.spans), spans=job.spans, events=job.events))
    assert found.suspect == "data_pipeline"
    assert found.missing == ["CPU samples"]
    bare = verdict(gather(steps(job.spans)))
    assert bare.suspect == "data_pipeline"
    assert bare.advice[0].expected_step_ms == pytest.approx(400, rel=0.01)


def test_no_steps_are_inconclusive():
    found = verdict(gather(Table.empty("steps"), samples=told("before").samples))
    assert found.suspect == "inconclusive"
    assert "steps" in found.missing
    job = told("before")
    few = steps(job.spans.where((job.spans["step"] < 1004) & (job.spans["step"] >= 0)))
    assert verdict(gather(few)).suspect == "inconclusive"


def test_few_steps_are_judged_if_they_are_long():
    short = replace(facts_of("before"), steady_steps=2, mean_step_ms=900.0)
    found = verdict(short)
    assert (found.suspect, found.sentence) == (
        "inconclusive", "The job has only 2 steady steps, which is too few for a verdict.",
    )  # fmt: skip
    assert [one.text for one in found.advice] == [
        "Train for longer: a verdict needs 5 steady steps, or 10 s of them."
    ]
    assert verdict(replace(short, mean_step_ms=98_000.0)).suspect == "data_pipeline"


@pytest.mark.parametrize(("after_s", "delay"), [(0.4, 62.0), (1.5, None)])
def test_the_first_reading_after_a_short_loop_tells_of_its_machine(after_s, delay):
    job = told("after")
    loop = steps(job.spans)
    end = int((loop["time"] + loop["duration"]).max()) + int(after_s * 1e9)
    columns = {"time": [end], "node": ["node-0"], "metric": ["proc.cpu.delay"], "device": ["trainer"]}
    samples = Table(
        {**{name: np.array(values) for name, values in columns.items()}, "value": np.array([62.0])}
    )
    (load,) = gather(loop, samples=samples, nodes=job.nodes).loads or [Load(node="node-0")]
    assert load.trainer_delay == delay


def test_idle_gpus_that_nothing_explains_are_inconclusive():
    facts = facts_of("after")
    idle = replace(facts, loads=[replace(facts.loads[0], gpu_p50=35.0, busiest_core_p50=50.0)])
    found = verdict(idle)
    assert found.suspect == "inconclusive"
    assert found.missing == ["kernel trace"]
    assert "35 %" in found.sentence


@pytest.mark.parametrize(
    ("loading", "said"),
    [
        (9, "No bottleneck found: 91 % of each step is compute, and 9 % is data loading."),
        (27, "A smaller share: data loading takes 27 % of each step, worth up to 270 ms of 1 s."),
        (31, "Data loading takes 31 % of each step"),
    ],
)
def test_data_loading_is_ruled_out_then_a_smaller_share_then_the_bottleneck(loading, said):
    facts = cpu_only("after")
    parts = {**dict.fromkeys(facts.breakdown, 0.0), "forward": 100.0 - loading, "data_loading": loading}
    typical = {part: share * 10 for part, share in parts.items()}
    found = verdict(
        replace(facts, breakdown=parts, parts_ms=typical, step_ms=1000.0, mean_step_ms=1000.0, loading=None)
    )
    assert said in found.sentence
    excluded = [item["because"] for item in found.ruled_out if item["suspect"] == "data_pipeline"]
    assert excluded == (["data loading takes 9 % of each step"] if loading == 9 else [])
    assert [one.share_pct for one in found.smaller] == ([27] if loading == 27 else [])
    assert (found.suspect == "data_pipeline") is (loading == 31)


def test_a_healthy_training_that_waits_a_little_is_not_said_to_have_nothing_to_win():
    facts = cpu_only("after")
    parts = {**dict.fromkeys(facts.breakdown, 0.0), "forward": 73.0, "data_loading": 27.0}
    found = verdict(replace(facts, breakdown=parts))
    assert found.suspect == "healthy"
    assert found.sentence.startswith("No bottleneck found: 73 %")
    assert "A smaller share: data loading takes 27 %" in found.sentence


def test_time_outside_of_every_part_is_inconclusive():
    facts = cpu_only("after")
    unknown = replace(
        facts, breakdown={**dict.fromkeys(facts.breakdown, 0.0), "forward": 55.0, "other": 45.0}
    )
    found = verdict(unknown)
    assert found.suspect == "inconclusive"
    assert "profile of the Python code" in found.missing
    assert "run it again with `--profile-steps 1001:1004:cprofile`" in found.advice[0].text
    assert "`holter profile JOB --python cprofile`" in verdict(replace(unknown, running=True)).advice[0].text


def test_a_kernel_trace_decides_on_framework_overhead():
    facts = facts_of("framework")
    small = replace(facts, kernels=KernelTimes(median_us=8.0, idle_pct=60.0))
    large = replace(facts, kernels=KernelTimes(median_us=300.0, idle_pct=60.0))
    assert verdict(small).suspect == "framework_overhead"
    assert "8 us" in " ".join(item.text for item in verdict(small).evidence)
    assert verdict(large).suspect == "inconclusive"


def test_checkpoints_memory_and_hardware():
    facts = facts_of("after")
    saving = {**facts.breakdown, "checkpoint": 20.0, "backward": facts.breakdown["backward"] - 20}
    assert verdict(replace(facts, breakdown=saving)).suspect == "checkpointing"
    for change, suspect in (
        ({"memory_pressure_p50": 30.0}, "memory_pressure"),
        ({"memory_p95": 98.0, "swap_growth_bytes": 2.0**31}, "memory_pressure"),
        ({"throttled_gpu": "gpu2", "throttled_pct": 40.0}, "hardware"),
        ({"ecc_errors": 3.0}, "hardware"),
    ):
        assert verdict(replace(facts, loads=[replace(facts.loads[0], **change)])).suspect == suspect


def test_all_shares_are_of_the_loop_and_the_second_is_named_beside_the_first():
    facts = facts_of("before")
    diluted = {part: share / 2.5 for part, share in facts.breakdown.items()} | {"eval": 60.0}
    found = verdict(replace(facts, breakdown=diluted))
    assert (found.suspect, found.also) == ("evaluation", [])
    assert "Evaluation takes 60 % of the loop's time. A smaller share: data loading takes 24 % of" in (
        found.sentence
    )
    loading = replace(facts.loading, evaluation_start_pct=30.0)
    starting = verdict(replace(facts, breakdown=diluted, loading=loading))
    said = "Evaluation takes 60 % of the loop's time; starting the workers of its loader takes 30 %."
    assert starting.sentence.startswith(said)
    assert any("persistent_workers=True" in one.text for one in starting.advice)
    # What data loading is worth is a part of the same step that the card shows.
    assert found.smaller[0].text.endswith("worth up to 600 ms of 2.5 s")


def test_a_busy_device_excuses_waiting_for_data():
    facts = facts_of("before")
    busy = replace(facts, loads=[replace(facts.loads[0], gpu_p50=80.0)])
    assert verdict(busy).suspect == "healthy"


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_verdict_is_json_with_the_keys_of_the_contract(name):
    document = json.loads(json.dumps(verdict(facts_of(name)).to_json(), allow_nan=False))
    keys = {
        "suspect",
        "also",
        "share_pct",
        "sentence",
        "evidence",
        "smaller",
        "ruled_out",
        "advice",
        "missing",
    }
    assert set(document) == keys
    assert document["suspect"] in SUSPECTS
    for item in document["evidence"]:
        assert set(item) == {"text", "metric", "value", "threshold", "where", "window"}
        assert item["window"]["step_start"] == 1001
        assert item["window"]["step_end"] == 1499
    for item in document["advice"]:
        assert set(item) == {"text", "expected_step_ms", "why"}


def test_nodes_are_not_mixed():
    """A busy core of one node does not explain an idle GPU of another."""
    times = np.arange(20) * 500_000_000

    def read(node, metric, device, value):
        return [{"time": t, "node": node, "metric": metric, "device": device, "value": value} for t in times]

    samples = Table.of("samples", [
        *read("a", "gpu.util", "gpu0", 30.0), *read("a", "cpu.util", "", 20.0),
        *read("b", "gpu.util", "gpu0", 90.0), *read("b", "cpu.util", "", 95.0),
    ])  # fmt: skip
    job = told("after")
    facts = gather(steps(job.spans), samples=Table({**samples.columns, "time": samples["time"] + int(2e18)}))
    assert facts.loads == []
    first = int(steps(job.spans)["time"].min())
    moved = Table({**samples.columns, "time": samples["time"] + first + 1_000_000_000})
    loads = gather(steps(job.spans), samples=moved, nodes={"a": {"cpus": 4}}).loads
    assert [(x.node, x.cpus, x.gpu_p50, x.cpu_p50) for x in loads] == [("a", 4, 30, 20), ("b", None, 90, 95)]


def test_idle_gpus_of_others_do_not_count():
    job = told("after")
    samples = job.samples
    extra = samples.where(samples["device"] == "gpu0")
    idle = Table(
        {**extra.columns, "device": np.full(extra.rows, "gpu8", dtype=object), "value": extra["value"] * 0}
    )
    facts = gather(steps(job.spans), samples=Table.concat([samples, idle]))
    assert isinstance(facts.load, Load)
    assert (facts.load.gpus, round(facts.load.gpu_p50)) == (8, 88)


@pytest.mark.parametrize(
    ("part", "words"), [("other", "the loop's own code"), ("data_loading", "data loading"), ("loss", "loss")]
)
def test_parts_are_said_in_words(part, words):
    assert part_name(part) == words
