"""Loops of TensorFlow: steps are exact, parts agree with a clock, models are the same."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.frameworks.environments import python_of
from tests.frameworks.trained import TRAININGS, Trained, trained
from tests.recorder.reading import BOOTSTRAP, SOURCE

pytestmark = pytest.mark.framework("tensorflow")
CASES = ("graph", "eager", "by_hand", "in_turn", "retraced", "data_bound", "compute_bound")
OPTIONS = {
    "eager": ("--save", "weights@100", "--save", "gradients@100"),
    "compute_bound": ("--save", "weights@100"),
    "in_turn": ("--profile-steps", "20:23"),
    "profiled": ("--profile-steps", "15:17", "--profile-steps", "30:40"),
}
"""Training → options of `holter run`."""
Train = Callable[[str], Trained]


@pytest.fixture(scope="module")
def train(framework_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Returns what trains a case with and without holter, once."""
    kept: dict[str, Trained] = {}

    def one(case: str) -> Trained:
        if case not in kept:
            kept[case] = trained(
                framework_python,
                "tensorflow_loop.py",
                case,
                tmp_path_factory.mktemp(case),
                *OPTIONS.get(case, ()),
            )
        return kept[case]

    return one


@pytest.mark.capability("TensorFlow", "steps", "identical")
@pytest.mark.parametrize("case", CASES)
def test_steps_are_exact_and_the_model_is_the_same(train: Train, case: str) -> None:
    it = train(case)
    assert it.truth["model"] == it.alone["model"]
    assert it.truth.get("losses") == it.alone.get("losses")
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"]
    assert set(it.job.steps.table["mode"].tolist()) == {"train"}
    assert it.told["job"]["framework"]["name"] == "tensorflow"
    assert it.told["not_seen"] == []
    assert sum(it.told["breakdown"].values()) == pytest.approx(100)


@pytest.mark.capability("TensorFlow", "evaluation", parts="data loading, compute, backward, optimizer")
@pytest.mark.parametrize("case", ["graph", "eager"])
def test_the_breakdown_agrees_with_a_clock_in_the_script(train: Train, case: str) -> None:
    it = train(case)
    steps, took = it.job.steps.table, it.truth["took"]
    steps = steps.where(steps["step"] >= 40)
    whole = float(steps["duration"].sum())
    assert whole == pytest.approx(1e9 * it.truth["whole"], rel=0.1)
    for part, seconds in took.items():
        share = 100 * float(steps[part].sum()) / whole
        assert share == pytest.approx(100 * seconds / it.truth["whole"], abs=3), part


def test_a_gradient_within_its_tape_is_backward(train: Train) -> None:
    it = train("by_hand")
    assert it.told["steps"]["count"] == it.truth["steps"] == 30
    # The gradients of the inner tape are part of the forward pass.
    spans = it.job.spans.table
    assert int((spans["phase"] == "backward").sum()) == 30
    assert (it.job.steps.table["backward"] > 0).all()


def test_two_devices_share_a_step(train: Train) -> None:
    it = train("mirrored")
    assert it.truth["model"] == it.alone["model"]
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"] == 80
    steps, took = it.job.steps.table, it.truth["took"]
    steps = steps.where(steps["step"] >= 40)
    whole = float(steps["duration"].sum())
    for part in ("data_loading", "compute"):
        share = 100 * float(steps[part].sum()) / whole
        assert share == pytest.approx(100 * took[part] / it.truth["whole"], abs=3), part


@pytest.mark.capability("TensorFlow", ranks="`TF_CONFIG`")
def test_tf_config_tells_the_ranks(train: Train) -> None:
    it = train("workers")
    assert it.truth["models"] == it.alone["models"]
    steps = it.job.steps.table
    assert sorted(set(steps["rank"].tolist())) == [0, 1]
    assert [int((steps["rank"] == rank).sum()) for rank in (0, 1)] == [40, 40]


def test_the_end_of_an_iterator_is_no_batch(train: Train) -> None:
    it = train("graph")
    evaluations = [row for row in it.job.spans.table.to_rows() if row["mode"] == "eval"]
    assert {row["name"] for row in evaluations} == {"tf.function test_step"}


@pytest.mark.capability("TensorFlow", "checkpoints")
def test_checkpoints_have_their_size(train: Train) -> None:
    it = train("graph")
    rows = [row for row in it.job.spans.table.to_rows() if row["phase"] == "checkpoint"]
    assert {row["name"] for row in rows} == {"tf.train.CheckpointManager"}
    assert len(rows) == 4
    assert all(row["value"] > 10e6 for row in rows)  # the model, and two moments of the optimizer


def test_a_trace_that_is_repeated_has_its_reason(train: Train) -> None:
    rows = [row for row in train("retraced").job.events.table.to_rows() if row["kind"] == "compiled"]
    told = [json.loads(row["detail"]) for row in sorted(rows, key=lambda row: row["time"])]
    mine = [one for one in told if "train_step (tensorflow_loop.py:" in one["function"]]
    assert [(one["number"], one["step"]) for one in mine] == [(1, 0), (2, 10), (3, 20), (4, 25)]
    assert all(one["seconds"] > 0 for one in mine)
    keys = ("change", "argument", "before", "after", "more")
    assert [mine[1][key] for key in keys] == ["shape", "x", "(32, 48)", "(31, 48)", 1]
    assert [mine[3][key] for key in keys] == ["value", "scale", "1.0", "0.5", 0]
    steps = train("retraced").job.steps.table.sorted("step")
    assert set(steps["step"][steps["compile"] > 0].tolist()) == {0, 10, 20, 25}


@pytest.mark.capability("TensorFlow", windows="operations")
def test_a_window_shows_the_operations_of_each_step(train: Train) -> None:
    it = train("in_turn")
    (window,) = it.windows()
    assert (window["library"], window["first_step"], window["last_step"]) == ("TensorFlow", 20, 23)
    for step in range(20, 23):
        named = it.operators(step)
        assert sum("MatMul" in one for one in named) >= 4  # two layers of two models
    assert it.operators(19) == it.operators(23) == []


@pytest.mark.capability("TensorFlow", tensors="weights, and gradients of eager loops")
def test_weights_and_eager_gradients_are_saved_on_request(train: Train) -> None:
    it = train("eager")
    assert it.means("^(?!gradient).*kernel", 100) == pytest.approx(it.truth["kernels"], rel=1e-6, abs=1e-9)
    assert it.means("^gradient/.*kernel", 100) == pytest.approx(it.truth["gradients"], rel=1e-6, abs=1e-9)
    assert train("compute_bound").job.tensors("kernel").steps() == [0, 100]


def test_the_script_may_profile_itself(train: Train) -> None:
    it = train("profiled")
    assert it.truth["model"] == it.alone["model"]
    assert it.told["cost"]["faults"] == []
    assert min(it.truth["traces"]) > 0.5 * min(it.alone["traces"])
    assert [one["refused"] for one in it.windows()] == [
        "the script runs a profiler of its own",
        "the script started a profiler of its own",
    ]


@pytest.mark.capability("TensorFlow", "verdict")
def test_slow_batches_and_a_large_model_get_the_right_verdict(train: Train) -> None:
    slow = train("data_bound").told
    assert "ata loading takes" in slow["verdict"]["sentence"]
    assert slow["breakdown"]["data_loading"] > 50
    large = train("compute_bound").told
    assert "ata loading takes" not in large["verdict"]["sentence"]
    assert large["breakdown"]["data_loading"] < 10


@pytest.mark.capability("TensorFlow", verdict="the slowest stage of a tf.data pipeline")
def test_the_slow_stage_of_a_pipeline_is_named(train: Train) -> None:
    told = train("data_bound").told
    assert "decode (tensorflow_loop.py:" in told["verdict"]["sentence"]
    advice = told["verdict"]["advice"][0]
    assert "num_parallel_calls=tf.data.AUTOTUNE" in advice["text"]


def test_an_import_loads_no_session_and_the_first_use_does(framework_python: Path, tmp_path: Path) -> None:
    asks = "print('holter.recorder.session' in sys.modules)"
    script = f"import sys, keras, tensorflow\n{asks}\nkeras.layers.Dense(1)\n{asks}"
    paths = {"PYTHONPATH": os.pathsep.join([str(BOOTSTRAP), str(SOURCE)]), "HOLTER_SPOOL": str(tmp_path)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLTER_")}
    surroundings = {**kept, **paths, "KERAS_BACKEND": "tensorflow"}
    command = [str(framework_python), "-c", script]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True, timeout=180)
    assert done.stdout.split() == ["False", "True"]
    assert "holter:" not in done.stderr


def test_keras_on_jax_may_read_its_batches_with_tf_data(framework_python: Path, tmp_path: Path) -> None:
    try:
        other = python_of("keras-jax")
    except LookupError as missing:
        pytest.skip(str(missing))
    packages = next((other.parent.parent / "lib").glob("python*/site-packages"))
    links = tmp_path / "links"
    links.mkdir()
    for name in ("jax", "jaxlib", "scipy", "scipy.libs"):
        (links / name).symlink_to(packages / name)
    launcher = (str(framework_python), str(TRAININGS / "keras_jax_tfdata.py"))
    it = trained(framework_python, str(links), "", tmp_path, launcher=launcher)
    assert it.truth["model"] == it.alone["model"]
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"]  # tracing the optimizer is no step of TensorFlow
    assert it.told["job"]["framework"]["name"] == "jax"
    assert it.seconds("next batch") > 0
