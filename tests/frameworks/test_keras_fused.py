"""Keras on TensorFlow and JAX: steps are exact, waits inside of them are found, models are the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.frameworks.environments import python_of
from tests.frameworks.trained import Trained, trained

pytestmark = pytest.mark.framework("tensorflow")
BOTH = ("arrays", "clocked", "at_once", "unknown", "restored", "on_batch", "several", "wrapped")
ON_TENSORFLOW = ("adversarial", "eagerly")
ON_JAX = ("own_loop",)
OPTIONS = {
    "arrays": ("--save", "weights@50", "--profile-steps", "60:62"),
    "on_batch": ("--save", "weights@10", "--save", "activations@10"),
}
"""Training → options of `holter run`."""
Train = Callable[[str], Trained]


def claims(*names: str, **details: str) -> Callable[[Any], Any]:
    """Claim capabilities of Keras on both backends."""

    def marked(test: Any) -> Any:
        for framework in ("Keras on JAX", "Keras on TensorFlow"):
            test = pytest.mark.capability(framework, *names, **details)(test)
        return test

    return marked


@pytest.fixture(scope="module", params=["tensorflow", "keras-jax"])
def train(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Returns what trains a case with and without holter, once."""
    name = request.param
    try:
        python = python_of(name)
    except LookupError as missing:
        pytest.skip(str(missing))
    kept: dict[str, Trained] = {}

    def one(case: str) -> Trained:
        if case in ON_TENSORFLOW and name != "tensorflow":
            pytest.skip(f"{case} is written for TensorFlow")
        if case in ON_JAX and name != "keras-jax":
            pytest.skip(f"{case} is written for JAX")
        if case not in kept:
            folder = tmp_path_factory.mktemp(f"{name}-{case}")
            kept[case] = trained(python, "keras_fused.py", case, folder, *OPTIONS.get(case, ()))
        return kept[case]

    return one


def rows(job: Any, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = list(getattr(job, name).table.to_rows())
    return found


@claims("steps", "identical")
@pytest.mark.parametrize("case", [*BOTH, *ON_TENSORFLOW])
def test_steps_are_exact_and_the_model_is_the_same(train: Train, case: str) -> None:
    it = train(case)
    assert it.truth["model"] == it.alone["model"]
    assert it.truth.get("assignments") == it.alone.get("assignments"), "no copy of the state is forced"
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"]
    assert set(it.job.steps.table["mode"].tolist()) == {"train"}
    assert it.told["job"]["framework"]["name"] == "keras"
    assert it.told["not_seen"] == []
    shares = it.told["breakdown"]
    assert set(shares) <= {"data_loading", "compute", "checkpoint", "eval", "other"}
    assert sum(shares.values()) == pytest.approx(100)
    assert shares["compute"] > 0
    assert "one batch of keras" in it.card


@claims("numbers")
def test_losses_are_what_the_training_reports(train: Train) -> None:
    it = train("arrays")
    assert {**it.truth, "model": ""} == {**it.alone, "model": ""}
    history = it.truth["history"]
    scalars = rows(it.job, "scalars")
    trains = [row for row in scalars if row["mode"] == "train"]
    for name in ("loss", "accuracy"):
        last = {row["step"]: row["value"] for row in trains if row["name"] == name}
        assert sorted(last) == list(range(120))
        assert [last[39], last[79], last[119]] == pytest.approx(history[name], rel=1e-6)
    for name in ("val_loss", "val_accuracy"):
        assert it.scalars(name, "eval") == pytest.approx(history[name])
    after = {row["name"]: row["value"] for row in scalars if row["mode"] == "eval" and row["step"] == 120}
    assert [after["loss"], after["accuracy"]] == pytest.approx(it.truth["evaluated"])
    heard = train("unknown")
    assert heard.scalars("loss", "train") == pytest.approx(heard.truth["losses"])


@claims("evaluation", "checkpoints", "callbacks", "epochs")
def test_evaluations_checkpoints_callbacks_and_epochs_are_recorded(train: Train) -> None:
    it = train("arrays")
    spans = sorted(rows(it.job, "spans"), key=lambda row: row["time"])

    def names(phase: str) -> list[str]:
        return [row["name"] for row in spans if row["phase"] == phase]

    assert names("eval") == ["predict", "validation", "validation", "validation", "evaluate", "predict"]
    assert names("checkpoint") == ["Model.save"] * 3
    assert "callback ModelCheckpoint" in names("annotation")
    events = rows(it.job, "events")
    epochs = [json.loads(row["detail"]) for row in events if row["kind"] == "epoch"]
    assert [(one["number"], one["step"]) for one in epochs] == [(1, 0), (2, 40), (3, 80)]
    planned = [json.loads(row["detail"]) for row in events if row["kind"] == "planned"]
    assert [one["steps"] for one in planned] == [120]
    restored = train("restored").seconds("Model.save_weights")
    assert restored > 0


@claims(tensors="weights")
def test_weights_are_saved_on_request(train: Train) -> None:
    it = train("on_batch")
    assert it.means("kernel", 10) == pytest.approx(it.truth["means"], rel=1e-6, abs=1e-9)
    assert "collection 'activations' is not saved: holter reads weights of Keras" in it.card
    within = train("arrays").job.tensors("kernel")
    assert within.steps() == [0, 50, 100]
    assert len(within.names) == 2


@claims(windows="operations of the compiled step")
def test_a_window_shows_operations(train: Train) -> None:
    it = train("arrays")
    (window,) = it.windows()
    assert (window["first_step"], window["last_step"]) == (60, 62)
    first, second = it.operators(60), it.operators(61)
    assert len(first) > 3
    assert abs(len(first) - len(second)) <= 0.2 * len(first)


@claims(parts="data loading, compute, evaluation, checkpoint")
def test_the_breakdown_agrees_with_a_clock_in_the_script(train: Train) -> None:
    it = train("clocked")
    steps, took = it.job.steps.table, it.truth["took"]
    steps = steps.where(steps["step"] >= 60)  # the first epochs are traced and compiled
    whole = float(steps["duration"].sum())
    assert whole == pytest.approx(1e9 * it.truth["whole"], rel=0.1)
    for part, seconds in took.items():
        share = 100 * float(steps[part].sum()) / whole
        assert share == pytest.approx(100 * seconds / it.truth["whole"], abs=3), part


def test_calls_that_do_not_train_are_an_evaluation(train: Train) -> None:
    it = train("own_loop")
    assert it.truth["model"] == it.alone["model"]
    assert it.told["cost"]["faults"] == []
    assert it.told["steps"]["count"] == it.truth["steps"]
    assert it.share("eval") == pytest.approx(it.of_clock("eval"), abs=3)


def test_the_model_that_trains_is_told_once(train: Train) -> None:
    it = train("several")
    # The one that trains inside a callback counts no steps.
    told = [json.loads(row["detail"]) for row in rows(it.job, "events") if row["kind"] == "model"]
    assert [(one["step"], one["model"]) for one in told] == [(0, it.truth["outer"])]
    told = [row for row in rows(train("data_bound").job, "events") if row["kind"] == "model"]
    assert len(told) == 1  # two calls of `fit`


@claims(steps="several steps of one call")
def test_steps_of_one_call_share_its_time(train: Train) -> None:
    it = train("at_once")
    assert it.told["steps"]["at_once"] == 7
    assert it.truth["epochs"] == 2  # stopped early
    at_once = it.job.steps.table.sorted("step")["at_once"].tolist()
    assert at_once == 2 * [*35 * [7], *5 * [5]]


@claims("verdict")
def test_slow_batches_and_a_large_model_get_the_right_verdict(train: Train) -> None:
    it = train("data_bound")
    assert it.off_clock("data_loading", "data_loading") < 3
    slow = it.told
    assert "ata loading takes" in slow["verdict"]["sentence"]
    assert slow["breakdown"]["data_loading"] == max(slow["breakdown"].values())
    pipelines = [row for row in rows(train("data_bound").job, "events") if row["kind"] == "pipeline"]
    named = "Batches.__getitem__ (keras_fused.py:" in slow["verdict"]["sentence"]
    assert named == bool(pipelines)  # of tf.data
    large = train("compute_bound").told
    assert "ata loading takes" not in large["verdict"]["sentence"]
    assert large["breakdown"]["data_loading"] < 10


def test_a_wait_that_nothing_tells_is_not_seen(train: Train) -> None:
    it = train("workers")
    assert it.told["steps"]["count"] == 80
    assert it.told["cost"]["faults"] == []
    told_by_jax = "data_loading" in it.told["breakdown"]
    assert it.told["not_seen"] == ([] if told_by_jax else ["data_loading"])
