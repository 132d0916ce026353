"""JAX with Flax and optax: steps are exact, numbers are those of the training, weights stay the same."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.frameworks.trained import Trained, trained

pytestmark = [pytest.mark.framework("jax"), pytest.mark.slow]
Train = Callable[[str], Trained]
DEVICES = ("pmap_devices", "shard_map_devices", "hosts", "profiled")
"""Trainings of `jax_devices.py`."""
OPTIONS = {
    "nnx": ("--profile-steps", "20:24:shapes"),
    "profiled": ("--profile-steps", "15:17", "--profile-steps", "30:40"),
}
"""Training → options of `holter run`."""


@pytest.fixture(scope="module")
def train(framework_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    kept: dict[str, Trained] = {}

    def one(case: str) -> Trained:
        if case not in kept:
            script = "jax_devices.py" if case in DEVICES else "jax_loop.py"
            folder, options = tmp_path_factory.mktemp(case), OPTIONS.get(case, ())
            kept[case] = trained(framework_python, script, case, folder, *options)
        return kept[case]

    return one


CASES = {
    "plain": "train_step",
    "data_bound": "train_step",
    "compute_bound": "train_step",
    "gradient_only": "loss_of",
    "state_only": "update",
    "divided": "update_model",
    "eager": "apply_updates",
    "scanned": "train_epoch",
    "ahead": "train_step",
    "pmap_devices": "step",
    "shard_map_devices": "step",
    "nnx": "step",
    "filtered": "step",
    "linen": "step",
}
"""Training → the function whose calls are the steps."""


@pytest.mark.capability("JAX", "steps", "identical")
@pytest.mark.parametrize("case", CASES)
def test_steps_are_exact_and_the_weights_are_the_same(train: Train, case: str) -> None:
    it = train(case)
    assert it.truth["model"] == it.alone["model"]
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"]
    what = "one update of the parameters in" if case == "scanned" else "one call of"
    assert it.told["steps"]["unit"] == f"{what} {CASES[case]}"
    assert it.told["job"]["framework"]["name"] == "jax"
    assert it.told["job"]["framework"]["device"] == "cpu"
    assert sum(it.told["breakdown"].values()) == pytest.approx(100)


@pytest.mark.capability("JAX", "numbers")
@pytest.mark.parametrize("case", ["plain", "scanned", "ahead", "pmap_devices", "nnx", "filtered", "linen"])
def test_losses_have_the_values_that_the_script_reads(train: Train, case: str) -> None:
    it = train(case)
    rows = it.job.scalars.table
    rows = rows.where(rows["name"] == "loss").sorted("step")
    read = {step: it.truth["losses"][step] for step in rows["step"].tolist()}
    assert len(read) == rows.rows  # one value for each step
    assert len(read) >= 0.9 * it.truth["steps"] or case == "plain"
    assert rows["value"].tolist() == list(read.values())
    if case == "linen":
        assert it.scalars("accuracy", "train") == it.truth["accuracies"]


def test_the_first_loss_that_is_not_finite_is_found(train: Train) -> None:
    it = train("wild")
    first = next(at for at, loss in enumerate(it.truth["losses"]) if not math.isfinite(float(loss)))
    assert it.truth["losses"] == it.alone["losses"]
    (rule,) = [one for one in it.told["rules"] if one["rule"] == "NonFiniteLoss"]
    assert rule["issues"][0]["evidence"]["first_step"] == first


@pytest.mark.capability("JAX", "parts", parts="data loading, compute (dispatch and waiting), evaluation")
@pytest.mark.capability("JAX", "evaluation")
def test_the_breakdown_agrees_with_a_clock_in_the_script(train: Train) -> None:
    it = train("plain")
    steps = it.job.steps.table
    steps = steps.where(steps["step"] >= 5)
    whole = float(steps["duration"].sum())
    took = it.truth["took"]
    # The last evaluation is after the last step.
    clock = {"compute": took["call"] + took["wait"], "eval": took["eval"]}
    for part, seconds in clock.items():
        mine = 100 * float(steps[part].sum()) / 1e9 / it.truth["whole"]
        assert mine == pytest.approx(100 * seconds / it.truth["whole"], abs=3), part
    assert whole / 1e9 <= it.truth["whole"] * 1.03
    # Data loading is sampled, so a longer training shows its share: see the twins below.
    told = it.told["breakdown"]
    rest = 100 - told["compute"] - told["eval"]
    assert told["data_loading"] + told["other"] == pytest.approx(rest, abs=0.1)


@pytest.mark.capability("JAX", "verdict")
def test_slow_batches_and_a_large_model_get_the_right_verdict(train: Train) -> None:
    slow = train("data_bound")
    assert "data_pipeline" in (slow.told["verdict"]["suspect"], *slow.told["verdict"]["also"])
    assert "generator stream (jax_loop.py" in slow.told["verdict"]["sentence"]
    share = 100 * slow.truth["took"]["data"] / slow.truth["whole"]
    assert slow.told["breakdown"]["data_loading"] == pytest.approx(share, abs=3)
    large = train("compute_bound")
    found = {large.told["verdict"]["suspect"], *large.told["verdict"]["also"]}
    assert not found & {"data_pipeline", "own_code"}
    assert large.told["breakdown"]["compute"] > 90
    assert large.named("wait for the device") > 50


@pytest.mark.parametrize("case", ["device", "state_only"])
def test_the_device_is_measured_without_waiting_for_it(train: Train, case: str) -> None:
    it = train(case)
    measured = [json.loads(row["detail"]) for row in _events(it, "device_time")]
    assert measured[-1]["steps"] >= 5
    # Both measure a busy machine, at other times.
    assert measured[-1]["median_ns"] / 1e9 == pytest.approx(it.truth["device"], rel=0.25)


def test_a_compilation_says_which_argument_changed(train: Train) -> None:
    it = train("recompiled")
    assert it.truth["model"] == it.alone["model"]
    assert it.told["steps"]["count"] == 60
    compiled = [json.loads(row["detail"]) for row in _events(it, "compiled")]

    def why(function: str) -> list[tuple[str, ...]]:
        mine = [one for one in compiled if one["function"] == function]
        assert [one["number"] for one in mine] == list(range(1, len(mine) + 1))
        assert all(one["seconds"] > 0 for one in mine)
        assert "change" not in mine[0]
        return [tuple(one[key] for key in ("change", "argument", "before", "after")) for one in mine[1:]]

    assert why("train_step") == [
        ("shape", "x", f"float32[{size},64]", f"float32[{size - 1},64]") for size in range(64, 59, -1)
    ]
    assert why("scaled") == [("static value", "scale", "1.0", "2.0"), ("static value", "scale", "2.0", "3.0")]
    assert why("<lambda>") == [("function", "", "", "")] * 2
    (rule,) = [one for one in it.told["rules"] if one["rule"] == "RepeatedRecompilation"]
    if sum(one["seconds"] for one in compiled if one["function"] == "train_step") > 3:
        (issue,) = rule["issues"]
        assert issue["evidence"]["recompilations"] == 5
        assert "train_step was compiled 5 more times after its first" in issue["summary"]
        assert "the shape of x changed 5 times" in issue["summary"]
    (healthy,) = [one for one in train("plain").told["rules"] if one["rule"] == "RepeatedRecompilation"]
    assert healthy["issues"] == []
    spans = it.job.trial.table("spans", where="phase = 'compile'")
    assert {"compile jit(train_step)", "trace train_step"} <= set(spans["name"].tolist())


@pytest.mark.capability("JAX", ranks="`jax.distributed`")
def test_two_processes_have_their_ranks(train: Train) -> None:
    it = train("hosts")
    assert it.truth["models"] == it.alone["models"]
    assert it.told["cost"]["faults"] == []
    steps = it.job.steps.table
    assert sorted(set(steps["rank"].tolist())) == [0, 1]
    assert [int((steps["rank"] == rank).sum()) for rank in (0, 1)] == [20, 20]
    losses = it.job.scalars.table
    losses = losses.where((losses["name"] == "loss") & (losses["rank"] == 0)).sorted("step")
    assert losses["value"].tolist() == it.truth["losses"]


@pytest.mark.parametrize(
    ("case", "name"), [("nnx", "nnx.jit around step"), ("filtered", "filter_jit around step")]
)
def test_the_work_of_a_library_around_a_compiled_function_is_named(
    train: Train, case: str, name: str
) -> None:
    it = train(case)
    spans = it.job.trial.table("spans", where=f"name = '{name}'").sorted("time")
    # The recording begins within the first call.
    timed = it.truth["calls"][1:]
    assert spans.rows == len(timed)
    differences = [clock - ns / 1e9 for clock, ns in zip(timed, spans["duration"].tolist(), strict=True)]
    assert abs(statistics.median(differences)) < 0.1 * statistics.median(timed)
    assert it.named(name) > 1
    assert name in it.card


@pytest.mark.capability("JAX", windows="operations of the compiled program")
def test_a_window_shows_the_operations_of_each_step(train: Train) -> None:
    it = train("nnx")
    (window,) = it.windows()
    assert (window["library"], window["first_step"], window["last_step"]) == ("JAX", 20, 24)
    assert window["missing"] == "the profiler of JAX tells no shapes"
    # Each step runs the same program, whenever the device comes to it.
    first, *others = [it.operators(step) for step in range(20, 24)]
    assert len(first) > 5
    assert others == [first] * 3
    assert it.operators(19) == it.operators(24) == []


def test_the_script_may_profile_itself(train: Train) -> None:
    it = train("profiled")
    assert it.truth["model"] == it.alone["model"]
    assert it.told["cost"]["faults"] == []
    assert min(it.truth["traces"]) > 0.5 * min(it.alone["traces"])
    assert [one["refused"] for one in it.windows()] == [
        "the script runs a profiler of its own",
        "the script started a profiler of its own",
    ]


@pytest.mark.capability("JAX", "checkpoints", checkpoints="orbax, also in the background")
def test_checkpoints_and_their_background_are_recorded(train: Train) -> None:
    it = train("linen")
    spans = it.job.trial.table("spans", where="phase = 'checkpoint'")
    saves = spans.where(spans["name"] == "CheckpointManager.save")
    assert saves.rows == 3
    assert float(saves["duration"].sum()) / 1e9 == pytest.approx(it.truth["took"]["checkpoint"], rel=0.05)
    background = spans.where(spans["name"] == "checkpoint in the background")
    assert background.rows == 3
    assert 0 not in background["thread"]
    assert (background["value"] > 1000).all()


def test_compiled_functions_stay_what_they_are(framework_python: Path, tmp_path: Path) -> None:
    it = trained(framework_python, "jax_functions.py", "", tmp_path)
    assert it.truth["said"] == it.alone["said"]
    assert it.truth["restored"] == it.alone["restored"]
    assert it.truth["restored"][:2] == [True, True]
    assert it.told["steps"]["count"] > 0  # it was recorded
    assert it.told["cost"]["faults"] == []


def _events(it: Trained, kind: str) -> list[dict[str, str]]:
    events = it.job.trial.table("events", where=f"kind = '{kind}'").sorted("time")
    return list(events.to_rows())
