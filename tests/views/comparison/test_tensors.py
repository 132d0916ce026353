"""Tensors of two made jobs: what is paired, what is missing, and the sentences."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.tensors.writing import Recording

from holter.cli import main
from holter.store.trial import Trial
from holter.store.writer import Writer
from holter.views.comparison.tensor_lines import tensor_lines
from holter.views.comparison.tensors import tensor_changes

RANDOM = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
ROLES = {"fc.weight": "weight", "gradient/fc.weight": "grad", "fc_input_0": "input", "fc_output_0": "output"}


@pytest.fixture
def made(tmp_path):
    """Make jobs; each step is a mapping of tensors, which are normal numbers by default."""
    names = iter("abcdef")

    def make(*steps, raw=False, ranks=(0,), roles=ROLES):
        job = Recording(tmp_path, next(names), ranks)
        for step, tensors in enumerate(steps):
            for rank in ranks:
                job.save(step, tensors, raw=raw, roles=roles, rank=rank)
        job.end()
        return job

    return make


def compared(*jobs, perturbed=None):
    """Compare two jobs; returns the result and its text."""
    trials = [Trial(job.folder) for job in jobs]
    (change,) = tensor_changes(trials, None if perturbed is None else Trial(perturbed.folder))
    return change, " ".join(tensor_lines(change))


def write(job, table, **row):
    """Write one row."""
    writer = Writer(job.folder, "n0")
    writer.append(table, {key: [value] for key, value in {"time": 1, "rank": 0, **row}.items()})
    assert writer.close(), writer.fault


def facts(job, step, **detail):
    """Write what the sentinel records at a step."""
    write(job, "events", kind="sentinel", name="sentinel", detail=json.dumps({"step": step, **detail}))


def test_equal_elements_and_equal_statistics(made):
    change, text = compared(*(made({"fc.weight": RANDOM}, {"fc.weight": RANDOM}, raw=True) for _ in "ab"))
    assert change["result"] == "identical"
    assert text.startswith("a and b are equal to the last bit in 1 tensor at 2 steps.")
    assert change["compared"]["by"] == {"elements": 1}
    change, text = compared(*(made({"fc.weight": RANDOM}) for _ in "cd"))
    assert text.startswith("c and d are equal in all recorded statistics of 1 tensor at 1 step.")


def test_equal_fingerprints_are_equal_in_what_they_show(made):
    """They are taken of few elements, at few steps: they do not show that all bits are equal."""
    jobs = [made(), made()]
    for job in jobs:
        facts(job, 0, names=["a.weight"], prints="AQAAAA==", gradients="AQAAAA==")
        write(job, "scalars", step=0, mode="train", name="loss", value=1.0)
    change, text = compared(*jobs)
    assert change["compared"]["by"] == {"fingerprint": 2, "number": 1}
    assert text.startswith(
        "a and b are equal in all fingerprints and recorded numbers of 3 tensors at 1 step."
    )
    assert "2 by fingerprints, 1 by recorded numbers. A fingerprint is taken of up to 64 elements" in text


def test_files_that_cannot_be_read_are_named(made, tmp_path):
    jobs = [made({"fc.weight": RANDOM}, {"fc.weight": RANDOM}, raw=True) for _ in "abc"]
    raw = "tensors-raw/node=n0/rank=0/000000001-train.safetensors"
    _cut(Path(jobs[1].folder.url) / raw)
    change, text = compared(*jobs[:2])
    assert change["unread"][0].startswith(f"1 file of b cannot be read: {raw}: ")
    assert change["result"] == "identical"
    assert "of 1 tensor at 2 steps in the files that can be read. 1 file of b cannot be read: " in text
    assert [main(["check", "a", job, "--tensors", "--store", str(tmp_path)]) for job in "bc"] == [3, 0]
    root = Path(jobs[2].folder.url)
    first = min(root.rglob("tensors/**/*.parquet"))
    _cut(first)
    change, text = compared(jobs[0], jobs[2])
    assert change["unread"][0].startswith(f"1 file of c cannot be read: {first.relative_to(root)}: ")
    assert "at 1 step in the files that can be read." in text


def _cut(path):
    """Damage a file."""
    path.write_bytes(path.read_bytes()[:9])


def test_jobs_that_hold_nothing_of_the_same(made):
    change, text = compared(made(), made())
    assert change["result"] == "nothing"
    assert "a and b hold no tensor, loss or fingerprint of the same step." in text
    assert "a and b saved no tensors" in text
    change, text = compared(made({"fc.weight": RANDOM}), made({"other": RANDOM}))
    assert "no tensor has the same name in both jobs" in text


def test_what_only_one_job_has_is_named(made):
    one = made({"fc.weight": RANDOM, "x": RANDOM}, {"fc.weight": RANDOM}, {"fc.weight": RANDOM})
    other = made({"fc.weight": RANDOM, "y": RANDOM, "z": RANDOM}, ranks=(0, 1))
    change, text = compared(one, other)
    assert change["missing"][:4] == [
        "only a has 1 tensor: x",
        "only a saved tensors at steps 1 to 2",
        "only b has 2 tensors: y, z",
        "only b has rank 1",
    ]
    assert "only b has 2 tensors: y, z" in text


def test_another_shape(made):
    change, text = compared(made({"fc.weight": RANDOM}), made({"fc.weight": RANDOM[:, :4]}))
    assert change["first"]["why"] == "shape"
    assert change["first"]["difference"] is None
    assert "Its number of elements differs." in text


def test_nan_in_one_job(made):
    damaged = RANDOM.copy()
    damaged[0, 0] = np.nan
    change, text = compared(made({"fc_output_0": RANDOM}), made({"fc_output_0": damaged}))
    assert change["first"]["why"] == "nonfinite"
    assert "NaN or infinite elements" in text


def test_the_module_whose_inputs_and_weights_agree_is_to_blame(made):
    equal = {"fc_input_0": RANDOM, "fc.weight": RANDOM}
    change, text = compared(
        made({**equal, "fc_output_0": RANDOM}), made({**equal, "fc_output_0": 1.1 * RANDOM})
    )
    assert change["first"]["module"] == "fc"
    assert (change["inputs"], change["weights"]) == ("equal", "equal")
    assert "the output of module fc (fc_output_0)" in text
    assert "Its inputs and weights are equal: the module computes something else." in text


def test_an_operation_between_modules(made):
    """As a function in `forward`: the output of one module agrees, the input of the next one differs."""
    roles = {"a_output_0": "output", "b_input_0": "input"}
    jobs = [made({"a_output_0": RANDOM, "b_input_0": x}, roles=roles) for x in (RANDOM, np.abs(RANDOM))]
    change, text = compared(*jobs)
    assert (change["first"]["module"], change["first"]["kind"]) == ("b", "input")
    assert change["last_equal"] == "a_output_0"
    assert "Before it, a_output_0 agrees: the operation in front of the module differs." in text


def test_round_off_within_a_tensor_is_seen_in_its_elements_only(made):
    moved = RANDOM.copy()
    moved[3, 3] = np.nextafter(moved[3, 3], np.float32(9))
    change, text = compared(*(made({"fc.weight": x}, raw=True) for x in (RANDOM, moved)))
    assert change["result"] == "round_off"
    assert 0 < change["levels"][0]["difference"] < 1e-7
    assert "No difference beyond round-off." in text
    assert "The first bits differ at step 0, in fc.weight." in text


def test_steps_between_that_were_not_compared(made):
    jobs = [made({"fc.weight": RANDOM}) for _ in "ab"]
    for job, factor in zip(jobs, (1.0, 1.001), strict=True):
        job.save(50, {"fc.weight": factor * RANDOM}, roles=ROLES)
    change, text = compared(*jobs)
    assert change["result"] == "unclear"
    assert "Round-off may explain the differences: at step 50 the parameter (fc.weight)." in text
    assert "`--perturbed`" in text


def test_a_learning_rate_is_known_between_its_records(made):
    jobs = [made({"fc.weight": RANDOM}) for _ in "ab"]
    for job in jobs:
        for step in (0, 20):
            write(job, "scalars", step=step, mode="train", name="lr", value=0.1)
    write(jobs[1], "scalars", step=7, mode="train", name="lr", value=0.05)
    change, text = compared(*jobs)
    assert (change["first"]["step"], change["first"]["tensor"]) == (7, "lr")
    assert (change["first"]["before"], change["first"]["after"]) == (0.1, 0.05)
    assert "The learning rate, or its schedule, differs." in text


def test_fingerprints_name_the_parameter_and_the_loss_its_size(made):
    jobs = [made(), made()]
    for job, print_, loss in zip(jobs, ("AQAAAAIAAAA=", "AQAAAAMAAAA="), (1.0, 1.5), strict=True):
        facts(
            job,
            0,
            names=["a.weight", "b.weight"],
            prints=print_,
            gradients="AQAAAAIAAAA=",
            batches=[[0, 0, 7]],
        )
        write(job, "scalars", step=0, mode="train", name="loss", value=loss)
    change, text = compared(*jobs)
    assert change["result"] == "different"
    assert change["first"]["tensor"] == "loss"
    assert change["origin"]["tensor"] == "b.weight"
    assert "the parameter (b.weight)" in text
    assert "then loss differs: relative difference 0.33" in text
    assert change["compared"]["by"] == {"fingerprint": 5, "number": 1}


def test_fingerprints_of_batches(made):
    jobs = [made(), made()]
    for job, batch in zip(jobs, (7, 8), strict=True):
        facts(job, 0, names=[], batches=[[0, 0, 7], [0, 1, batch]])
        for step, loss in enumerate((1.0, 0.9)):
            write(job, "scalars", step=step, mode="train", name="loss", value=loss)
    change, text = compared(*jobs)
    assert change["result"] == "different"
    assert (change["first"]["step"], change["first"]["stage"]) == (1, "data")
    assert "at step 1: the input batch (batch of loader 0)" in text


def test_labels_in_another_order_and_targets_with_round_off(made):
    """Labels of classes are the same or not; targets of a regression have round-off."""
    roles = {"labels": "labels"}
    classes = np.arange(8) % 4
    jobs = [made(), made()]
    for job, labels in zip(jobs, (classes, classes[::-1]), strict=True):
        job.save(0, {"labels": labels}, values=True, roles=roles)
    change, text = compared(*jobs)
    assert (change["result"], change["first"]["stage"]) == ("different", "data")
    assert "The elements differ, by an unknown amount." in text
    jobs = [made(), made()]
    for job, factor in zip(jobs, (1.0, 1.0 + 2**-23), strict=True):
        job.save(0, {"labels": factor * RANDOM}, values=True, roles=roles)
    assert compared(*jobs)[0]["result"] == "round_off"


def test_numbers_that_are_no_result_of_the_training_are_not_compared(made):
    jobs = [made({"fc.weight": RANDOM}) for _ in "ab"]
    for job, value in zip(jobs, (1.0, 2.0), strict=True):
        for name in ("seconds", "cuda.allocated", "tokens_per_second"):
            write(job, "scalars", step=0, mode="train", name=name, value=value)
    assert compared(*jobs)[0]["result"] == "identical"


def test_a_perturbed_run(made):
    jobs = [made({"fc.weight": RANDOM}, {"fc.weight": x * RANDOM}) for x in (1, 1.001, 1.0003)]
    assert compared(*jobs[:2])[0]["result"] == "different"
    change, text = compared(*jobs[:2], perturbed=jobs[2])
    assert change["result"] == "round_off"
    assert change["perturbed"] == "c"
    assert "c shows the round-off." in text
    change, text = compared(*jobs[:2], perturbed=jobs[0])
    assert change["result"] == "different"
    assert "a equals a in all that is compared, so it shows no round-off" in change["missing"][0]
