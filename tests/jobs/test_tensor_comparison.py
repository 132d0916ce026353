"""Two recordings of one training are compared by their tensors: the first cause of a difference is named."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.starting import TRAININGS, Jobs, here

import holter

SCRIPT = str(TRAININGS / "numerics.py")
EPS = ("--eps", "1e-12")
KINDS = ("weights", "biases", "gradients", "layers", "losses")
DEFAULT = ("--no-rules",)
STATISTICS = (*DEFAULT, *(word for kind in KINDS for word in ("--save", f"{kind}@1")))
ELEMENTS = (*DEFAULT, *(word for kind in KINDS for word in ("--save", f"{kind}@1:raw")))


class Recorded:
    """Jobs of one training, each recorded once."""

    def __init__(self, store: Path) -> None:
        self.jobs = Jobs(store)
        self._known: dict[tuple[Any, ...], str] = {}

    def job(self, *words: str, save: tuple[str, ...] = STATISTICS, again: int = 0) -> str:
        """Return the name of the job with these options of the training.

        Two jobs hold their tensors whole too: those with the others are compared by statistics.
        """
        save = ELEMENTS if save is STATISTICS and words in ((), EPS) else save
        key = (*words, *save, again)
        if key not in self._known:
            done = self.jobs.run(sys.executable, SCRIPT, *words, options=save)
            assert done.code == 0, done.stderr
            self._known[key] = done.job
        return self._known[key]

    def compare(self, *words: str, save: tuple[str, ...] = STATISTICS, **more: str) -> dict[str, Any]:
        """Compare the plain training with one of these options."""
        pair = [str(self.jobs.store / self.job(*of, save=save)) for of in ((), words)]
        found = holter.open(pair[0]).compare(pair[1], tensors=True, **more)
        change: dict[str, Any] = found["changes"][0]["tensors"]
        return change

    def text(self, *words: str) -> str:
        """Return what the command prints for the same, on one line."""
        names = [self.job(*of) for of in ((), words)]
        return " ".join(here("compare", *names, "--tensors", "--store", str(self.jobs.store)).stdout.split())

    def check(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Return what `holter check` says of the same."""
        names = [self.job(*of) for of in ((), words)]
        done = here("check", *names, "--tensors", "--json", "--store", str(self.jobs.store), check=False)
        return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp("numerics") / "store")


def test_a_repeated_training_is_equal(recorded: Recorded) -> None:
    pair = [str(recorded.jobs.store / recorded.job(again=number)) for number in (0, 1)]
    change = holter.open(pair[0]).compare(pair[1], tensors=True)["changes"][0]["tensors"]
    assert change["result"] == "identical"
    assert change["compared"]["steps"] == 6
    assert "statistics" not in change["compared"]["by"]
    assert change["first"] is None
    assert change["bits"] is None


@pytest.mark.parametrize("words", [("--halves",), ("--threads", "2")], ids=["other sums", "other threads"])
def test_round_off_is_not_a_difference(recorded: Recorded, words: tuple[str, ...]) -> None:
    change = recorded.compare(*words)
    assert change["result"] in ("round_off", "identical"), change
    assert change["compared"]["steps"] == 6
    if words == ("--halves",):
        assert change["bits"]["module"] == "first"
        assert change["levels"][0]["difference"] < 1e-5
        assert recorded.check(*words)[0] == 0


def test_a_layer_norm_with_another_epsilon(recorded: Recorded) -> None:
    change = recorded.compare(*EPS)
    assert change["result"] == "different"
    first = change["first"]
    assert (first["step"], first["module"], first["kind"]) == (0, "blocks.1.norm", "output")
    assert first["by"] == "elements"
    assert first["types"] == ["float32", "float32"]
    assert (change["inputs"], change["weights"]) == ("equal", "equal")
    text = recorded.text(*EPS)
    assert "at step 0: the output of module blocks.1.norm (blocks.1.norm_output_0)" in text
    assert "Its inputs and weights are equal: the module computes something else." in text
    code, told = recorded.check(*EPS)
    assert (code, told["result"]) == (1, "difference")


def test_a_wrong_epsilon_among_round_off(recorded: Recorded) -> None:
    change = recorded.compare("--eps", "1e-3", "--halves")
    assert change["result"] == "different"
    assert (change["first"]["step"], change["first"]["module"]) == (0, "blocks.1.norm")
    assert change["bits"]["module"] == "first"
    assert change["inputs"] == "within"


def test_another_initialization(recorded: Recorded) -> None:
    change = recorded.compare("--seed", "1")
    assert change["result"] == "different"
    assert (change["first"]["step"], change["first"]["stage"]) == (0, "state")
    assert change["first"]["tensor"] == "first.weight"
    assert "another initialization" in recorded.text("--seed", "1")


def test_another_order_of_the_data(recorded: Recorded) -> None:
    change = recorded.compare("--order", "1")
    assert change["result"] == "different"
    assert (change["first"]["step"], change["first"]["stage"]) == (0, "data")
    assert change["agree"] == ["state"]
    assert "the input batch" in recorded.text("--order", "1")


def test_another_activation_function(recorded: Recorded) -> None:
    change = recorded.compare("--activation", "gelu")
    assert change["result"] == "different"
    assert (change["first"]["step"], change["first"]["module"]) == (0, "blocks.1.act")
    assert change["first"]["kind"] == "output"
    text = recorded.text("--activation", "gelu")
    assert "act_out:relu in" in text
    assert "act_out:gelu in" in text


def test_another_weight_decay(recorded: Recorded) -> None:
    change = recorded.compare("--decay", "1")
    assert change["result"] == "different"
    assert (change["first"]["step"], change["first"]["stage"]) == (1, "state")
    assert "The gradients of the step before agree: the update differs" in recorded.text("--decay", "1")


def test_bfloat16_has_the_round_off_of_bfloat16(recorded: Recorded) -> None:
    change = recorded.compare("--dtype", "bfloat16")
    assert change["result"] == "round_off", change
    assert change["precision"]["types"] == ["float32", "bfloat16"]
    assert change["precision"]["step"] == 0
    assert "tolerances are those of the coarser type" in " ".join(
        recorded.text("--dtype", "bfloat16").split()
    )


def test_a_perturbed_run_is_the_tolerance(recorded: Recorded) -> None:
    perturbed = str(recorded.jobs.store / recorded.job("--halves"))
    change = recorded.compare("--threads", "2", perturbed=perturbed)
    assert change["result"] in ("round_off", "identical"), change
    assert change["perturbed"] == recorded.job("--halves")
    change = recorded.compare("--eps", "1e-12", perturbed=perturbed)
    assert change["first"]["module"] == "blocks.1.norm"
    # Differences of the perturbed run itself are within it.
    assert recorded.compare("--halves", perturbed=perturbed)["result"] == "round_off"


@pytest.mark.parametrize(
    ("words", "stage"),
    [(("--order", "1"), "data"), (("--activation", "gelu"), "loss")],
    ids=["data", "activation"],
)
def test_without_saved_tensors_fingerprints_and_losses_are_compared(
    recorded: Recorded, words: tuple[str, ...], stage: str
) -> None:
    change = recorded.compare(*words, save=DEFAULT)
    assert change["result"] == "different"
    assert (change["first"]["step"], change["first"]["stage"]) == (0, stage)
    assert any("--save layers" in text for text in change["missing"])


def test_round_off_without_saved_tensors(recorded: Recorded) -> None:
    change = recorded.compare("--halves", save=DEFAULT)
    assert change["result"] == "round_off", change
    assert change["bits"] is not None
