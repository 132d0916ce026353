"""Tensors of real jobs are saved as requested on every rank, without changing the training."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import duckdb
import pytest
from tests.jobs.starting import TRAININGS, Finished, Jobs, environment

import holter
from holter.store.job import find
from holter.store.trial import Trial
from holter.views.figures import draw
from holter.views.reading import Reading

PLAIN = str(TRAININGS / "plain.py")
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
EVERYTHING = ("--no-rules", "--save", "all@1:everything,raw")


def rows(done: Finished, table: str = "tensors") -> list[dict]:
    """Read a table from its files."""
    assert done.code == 0, done.stderr
    found = duckdb.sql(f"select * from '{done.store / done.job / table}/*/*.parquet'")
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


@pytest.mark.capability("PyTorch", "identical", tensors="weights, gradients, activations")
def test_results_are_bit_identical_with_everything_saved(jobs: Jobs) -> None:
    words = [PLAIN, "--steps", "30"]
    alone = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=True, env=environment(), timeout=300
    )
    recorded = jobs.run(sys.executable, *words, options=EVERYTHING)
    assert recorded.stdout == alone.stdout
    found = rows(recorded)
    assert {row["step"] for row in found} == set(range(30))
    assert {
        "layers.0.weight",
        "gradient/layers.0.weight",
        "layers.1_output_0",
        "layers.0.weight/exp_avg",
    } <= {row["name"] for row in found}
    assert recorded.describe()["cost"]["faults"] == []
    whole = list((recorded.store / recorded.job / "tensors-raw").rglob("*-train.safetensors"))
    assert len(whole) == 30


def test_a_configuration_of_sagemakers_hook(jobs: Jobs, tmp_path: Path) -> None:
    config = {
        "LocalPath": "/opt/ml/output/tensors",
        "HookParameters": {"train.save_interval": "5", "reductions": "mean, l1", "save_shape": "True"},
        "CollectionConfigurations": [
            {"CollectionName": "gradients", "CollectionParameters": {"save_interval": "10"}},
            {
                "CollectionName": "mine",
                "CollectionParameters": {"include_regex": "layers.1_, bias", "train.save_steps": "3"},
            },
        ],
    }
    (tmp_path / "debughookconfig.json").write_text(json.dumps(config))
    options = ("--no-rules", "--config", str(tmp_path / "debughookconfig.json"))
    done = jobs.run(sys.executable, PLAIN, "--steps", "12", options=options)
    steps = defaultdict(set)
    for row in rows(done):
        steps[row["name"]].add(row["step"])
    assert steps["gradient/layers.0.weight"] == {0, 10}  # the collection comes before the hook, whatever mode
    assert steps["layers.1_output_0"] == {0, 3, 5, 10}
    assert steps["gradient/layers.0.bias"] == {0, 3, 5, 10}  # of both collections
    assert steps["loss"] == {0, 5, 10}
    assert "layers.0.weight" not in steps
    told = json.loads((done.store / done.job / "tensors.json").read_text())
    assert told["collections"]["mine"]["schedule"]["eval"]["interval"] == 500


@pytest.mark.slow
def test_gradients_of_ranks_in_parallel_are_reduced(jobs: Jobs) -> None:
    options = ("--no-rules", "--save", "gradients@2", "--save", "activations@2")
    words = ["--steps", "4", "--work", "0"]
    found = rows(jobs.run(*LAUNCH, str(TRAININGS / "ddp.py"), *words, options=options))
    of = {rank: {(r["step"], r["name"]): r for r in found if r["rank"] == rank} for rank in (0, 1)}
    assert set(of[0]) == set(of[1])
    assert (2, "gradient/layers.0.weight") in of[0]
    assert (2, "layers.1_output_0") in of[0]
    for key, row in of[0].items():
        if key[1].startswith("gradient/"):
            assert row["mean"] == of[1][key]["mean"]


@pytest.mark.capability("PyTorch", ranks="FSDP2", tensors="shards")
@pytest.mark.slow
def test_shards_of_a_model_join_to_the_whole(jobs: Jobs) -> None:
    options = ("--no-rules", "--save", "gradients@1", "--save", "weights@1", "--save", "outputs@1")
    script = str(TRAININGS / "sharded.py")
    alone = jobs.run(sys.executable, script, options=options)
    whole = {(r["step"], r["name"]): r for r in rows(alone)}
    done = jobs.run(*LAUNCH, script, options=options)
    shards = defaultdict(list)
    for row in rows(done):
        shards[row["step"], row["name"]].append(row)
    assert set(shards) == set(whole)
    assert (0, "Sequential_output_0") in shards
    for key, parts in shards.items():
        if "_output_" in key[1]:  # as on one rank, on each
            assert {part["parts"] for part in parts} == {0}
            continue
        assert sorted((part["part"], part["parts"]) for part in parts) == [(0, 2), (1, 2)]
        count = sum(part["count"] for part in parts)
        assert count == whole[key]["count"]
        squares = sum(
            part["count"] * (part["std"] ** 2 + part["mean"] ** 2) for part in parts if part["count"]
        )
        expected = whole[key]["count"] * (whole[key]["std"] ** 2 + whole[key]["mean"] ** 2)
        assert math.isclose(squares, expected, rel_tol=1e-4), key
    scalars = rows(done, "scalars")
    norms = [row["value"] for row in scalars if (row["name"], row["step"]) == ("grad_norm/shard", 0)]
    gradients = [row for (step, name), row in whole.items() if step == 0 and name.startswith("gradient/")]
    total = sum(row["count"] * (row["std"] ** 2 + row["mean"] ** 2) for row in gradients)
    assert math.isclose(sum(norm**2 for norm in norms), total, rel_tol=1e-4)
    reading, unsharded = (Reading(Trial(find(str(one.store), one.job)), width=50) for one in (done, alone))
    (drawn,) = draw("gradient_norm", reading).series
    assert drawn.name == "grad_norm"
    assert math.isclose(drawn.values[0], math.sqrt(total), rel_tol=1e-4)
    for statistic, role in (("l2", "grad"), ("l2", "weight"), ("std", "any"), ("update_ratio", "weight")):
        asked = {"statistic": statistic, "role": role}
        joined, expected = (draw("layer_map", one, **asked) for one in (reading, unsharded))
        assert "joined over 2 parts" in joined.note
        columns = {series.name: series.values for series in joined.series}
        assert {series.name for series in expected.series} == columns.keys()
        for series in expected.series:
            assert columns[series.name] == pytest.approx(series.values, rel=1e-5), (statistic, series.name)
    read = holter.open(str(done.store / done.job)).tensors()["0.weight"].reduction("l2", 1, rank="all")
    weights = draw("layer_map", reading, statistic="l2", role="weight").series
    assert read == pytest.approx(next(one.values[1] for one in weights if one.name == "0.weight"), rel=1e-9)


COMPILED = """
import sys, torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
run = torch.compile(model, backend=sys.argv[1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(run(torch.randn(4, 8)), torch.randint(0, 2, (4,)))
    loss.backward()
    optimizer.step()
print(sum(float(p.double().sum()) for p in model.parameters()))
"""


@pytest.mark.slow
def test_compiled_models_keep_their_names(jobs: Jobs, tmp_path: Path) -> None:
    script = tmp_path / "compiled.py"
    script.write_text(COMPILED)
    surroundings = {"TORCH_LOGS": "recompiles"}
    options = ("--no-rules", "--save", "weights@2", "--save", "gradients@2", "--save", "activations@2")
    command = [sys.executable, str(script), "aot_eager"]
    alone = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment(), timeout=300
    )
    done = jobs.run(*command, options=options, env=surroundings)
    assert done.stdout == alone.stdout
    assert {row["name"] for row in rows(done)} == {
        f"{prefix}{name}"
        for prefix in ("", "gradient/")
        for name in ("0.weight", "2.weight", "0.bias", "2.bias")
    } - {"0.bias", "2.bias"}
    assert done.stderr.count("a compiler is in use") == 1
    assert "Recompiling" not in done.stderr
