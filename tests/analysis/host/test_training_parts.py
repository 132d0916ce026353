"""Parts of a training loop, by stacks as py-spy writes them."""

from __future__ import annotations

import pytest

from holter.analysis.host.training_parts import part_of, training_parts
from holter.analysis.loading.stacks import frames
from holter.analysis.verdict.attached import judged
from holter.schema.table import Table

TORCH = "site-packages/torch"
LOOP = "<module> (train.py:30);train (train.py:12)"
NEXT = f"_BaseDataLoaderIter.__next__ ({TORCH}/utils/data/dataloader.py:741)"
CALL = f"Module._call_impl ({TORCH}/nn/modules/module.py:1787)"
STEP = f"Adam.step ({TORCH}/optim/adam.py:226)"
BACKWARD = f"Tensor.backward ({TORCH}/_tensor.py:625);backward ({TORCH}/autograd/__init__.py:354)"
WORKER = f"_worker_loop ({TORCH}/utils/data/_utils/worker.py:349)"
FETCH = f"_MapDatasetFetcher.fetch ({TORCH}/utils/data/_utils/fetch.py:52)"
ITEM = "Images.__getitem__ (data.py:8)"


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        (f"{LOOP};{NEXT};{ITEM}", "data_loading"),
        (f"{LOOP};{NEXT};{ITEM};{CALL};Resize.forward (data.py:20)", "data_loading"),
        (f"{LOOP};{CALL};Net.forward (model.py:5)", "forward"),
        (f"{LOOP};{CALL};CrossEntropyLoss.forward ({TORCH}/nn/modules/loss.py:1385)", "loss"),
        (f"{LOOP};cross_entropy ({TORCH}/nn/functional.py:3494)", "loss"),
        (f"{LOOP};{BACKWARD}", "backward"),
        (f"{LOOP};{BACKWARD};{CALL}", "backward"),
        (f"{LOOP};{STEP}", "optimizer"),
        (f"{LOOP};{STEP};closure (train.py:20);{BACKWARD}", "backward"),
        (f"{LOOP};all_reduce ({TORCH}/distributed/distributed_c10d.py:2940)", "communication"),
        (f"{LOOP};save ({TORCH}/serialization.py:944)", "checkpoint"),
        (f"{LOOP};load ({TORCH}/serialization.py:1500)", "other"),
        (f"{LOOP};{CALL};compile_fx ({TORCH}/_inductor/compile_fx.py:2300)", "compile"),
        (f"{LOOP};augment (train.py:50)", "other"),
        # Files of the user do not count, whatever they are called.
        ("<module> (torch/optim/mine.py:3);step (torch/optim/mine.py:9)", "other"),
    ],
)
def test_frames_of_torch_tell_the_part(stack, part):
    assert part_of(frames(stack))[0] == part


def sampled(*rows):
    """Return table `python_stacks` of rows (pid, stack, samples)."""
    return Table.of(
        "python_stacks",
        [{"stack": f"process {pid} python train.py;{stack}", "samples": n} for pid, stack, n in rows],
    )


def test_shares_name_the_calling_line_and_the_function_inside():
    found = training_parts(
        sampled(
            (1, f"{LOOP};{NEXT};{ITEM}", 70),
            (1, f"{LOOP};{CALL};Net.forward (model.py:5)", 20),
            (1, f"<module> (train.py:30);train (train.py:14);{BACKWARD}", 10),
            (1, f"thread pin;run (lib/python3.11/threading.py:1012);{CALL}", 100),
            (1, "_find_and_load (<frozen importlib._bootstrap>:1176)", 500),
            (2, "<module> (launch.py:1);wait (lib/python3.11/subprocess.py:1264)", 100),
        )
    )
    assert (found.samples, found.processes, found.workers) == (100, 1, None)
    assert {one.part: one.pct for one in found.parts} == {"data_loading": 70, "forward": 20, "backward": 10}
    assert found.find("data_loading").where == "train (train.py:12)"
    assert found.find("data_loading").inner == ITEM
    assert found.find("forward").inner == "Net.forward (model.py:5)"
    assert found.find("backward").where == "train (train.py:14)"


def test_workers_are_told_apart_from_trainers():
    found = training_parts(
        sampled(
            (1, f"{LOOP};{NEXT};get (lib/python3.11/queue.py:171)", 90),
            (1, f"{LOOP};{CALL}", 10),
            (2, f"{WORKER};{FETCH};{ITEM}", 95),
            (2, f"{WORKER};get (lib/python3.11/multiprocessing/queues.py:103)", 5),
        )
    )
    assert (found.processes, found.workers.count) == (1, 1)
    assert found.workers.busy_pct == pytest.approx(95)
    verdict = judged(found, None)
    assert verdict.suspect == "data_pipeline"
    assert ITEM in verdict.sentence
    assert ITEM in verdict.advice[0].text


@pytest.mark.parametrize(
    ("rows", "gpu", "suspect"),
    [
        ([(1, f"{LOOP};{CALL}", 90), (1, LOOP, 10)], None, "healthy"),
        ([(1, f"{LOOP};{CALL}", 90), (1, LOOP, 10)], 20.0, "inconclusive"),
        (
            [(1, f"{LOOP};{CALL}", 85), (1, f"{LOOP};save ({TORCH}/serialization.py:944)", 15)],
            None,
            "checkpointing",
        ),
        ([(1, f"{LOOP};{CALL}", 60), (1, f"{LOOP};augment (train.py:50)", 40)], None, "own_code"),
        ([(1, f"{LOOP};{NEXT};{ITEM}", 50)], None, "inconclusive"),
    ],
)
def test_the_verdict_follows_the_largest_part_beyond_its_limit(rows, gpu, suspect):
    assert judged(training_parts(sampled(*rows)), gpu).suspect == suspect


def test_stacks_that_were_not_sampled_from_outside_are_no_training():
    rows = Table.of("python_stacks", [{"stack": f"{LOOP};{CALL}", "samples": 100}])
    assert training_parts(rows) is None
    assert training_parts(Table.empty("python_stacks")) is None
