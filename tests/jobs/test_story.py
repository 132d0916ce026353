"""The worked case "which of four suspects?": generated jobs in a store, diagnosed by the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.generated.story import NODE, Story, story
from tests.jobs.starting import here

from holter.analysis.jobs.cost import saving
from holter.store.job import create
from holter.store.writer import Writer

SUSPECTS = {
    "before": "data_pipeline",
    "model": "model_compute",
    "communication": "communication",
    "framework": "framework_overhead",
    "mixed": "mixed",
}


def kept(told: Story, store: Path) -> None:
    """Write a story to a store, as an agent would have."""
    manifest = dict(told.manifest)
    name = manifest.pop("name")
    folder = create(
        str(store),
        name,
        command=manifest["command"],
        interval_ms=manifest["interval_ms"],
        rules=[],
        now_ns=manifest["start"],
    )
    folder.update(**manifest)
    for node, facts in told.nodes.items():
        folder.write_node(node, facts)
    writer = Writer(folder, NODE)
    for table in ("samples", "spans", "scalars", "events"):
        columns = getattr(told, table).columns
        writer.append(table, {column: values for column, values in columns.items() if column != "node"})
    writer.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that holds every story."""
    made = tmp_path_factory.mktemp("stories") / "store"
    for name in [*SUSPECTS, "after", "straggler"]:
        # Half the cores of the case, for time's sake; the GPUs and the length are the whole.
        kept(story(name, cores=48), made)
    return made


def described(name: str, store: Path) -> dict[str, Any]:
    """Return what `holter describe --json` says of a story."""
    return json.loads(here("describe", f"recommender-{name}", "--json", "--store", str(store)).stdout)


def statuses(name: str, store: Path) -> dict[str, str]:
    """Run the rules of the case on a story; return the status of each."""
    # 10 %: below it a GPU counts as idle, in the case as it is told.
    rules = ["LowGPUUtilization:threshold_p95=70", "DataloaderBottleneck", "CPUBottleneck:gpu_threshold=10"]
    rules += ["OverallSystemUsage", "OverallFrameworkMetrics"]
    done = here("rules", "run", f"recommender-{name}", *rules, "--json", "--store", str(store), check=False)
    assert done.returncode in (0, 3), done.stderr
    found = json.loads(done.stdout)
    return {rule["name"]: rule["status"] for rule in (found["rules"] if isinstance(found, dict) else found)}


def test_before(store: Path) -> None:
    told = described("before", store)
    assert told["steps"]["count"] == 500
    shares = {"data_loading": 60, "forward": 12, "backward": 20, "optimizer": 8}
    for part, share in shares.items():
        assert told["breakdown"][part] == pytest.approx(share, abs=1), part
    assert sum(told["breakdown"].values()) == pytest.approx(100, abs=0.5)
    stages = told["dataloading"]["stages"]
    assert stages["decode"] == pytest.approx(22, abs=1)
    assert stages["transform"] == pytest.approx(28, abs=1)
    assert sum(stages.values()) - stages["decode"] - stages["transform"] == pytest.approx(10, abs=1)
    ruled_out = {item["suspect"] for item in told["verdict"]["ruled_out"]}
    assert {"model_compute", "communication", "framework_overhead"} <= ruled_out
    assert told["verdict"]["advice"], "a slow input without advice"


def test_rules_before(store: Path) -> None:
    found = statuses("before", store)
    assert found.pop("LowGPUUtilization") == "IssuesFound"
    assert found.pop("DataloaderBottleneck") == "IssuesFound"
    assert set(found.values()) == {"NoIssuesFound"}


def test_rules_after(store: Path) -> None:
    assert set(statuses("after", store).values()) == {"NoIssuesFound"}


def test_after(store: Path) -> None:
    told = described("after", store)
    assert told["breakdown"]["data_loading"] == pytest.approx(9.2, abs=1)
    assert told["verdict"]["suspect"] in ("healthy", "model_compute", "contention")
    assert "data_pipeline" not in told["verdict"]["also"]


@pytest.mark.parametrize("name", sorted(SUSPECTS))
def test_each_suspect_is_told_from_the_others(name: str, store: Path) -> None:
    told = described(name, store)
    assert told["verdict"]["suspect"] == SUSPECTS[name], told["verdict"]
    if name == "mixed":
        assert {"data_pipeline", "communication"} <= {told["verdict"]["suspect"], *told["verdict"]["also"]}


def test_straggler_of_eight_is_named(store: Path) -> None:
    verdict = described("straggler", store)["verdict"]
    said = " ".join([verdict["sentence"], *(item["text"] for item in verdict["evidence"])])
    assert "rank 3" in said


def test_what_the_fix_is_worth() -> None:
    before, after = story("before", steps=1, samples=1, cores=1), story("after", steps=1, samples=1, cores=1)
    assert before.epoch_h is not None
    assert after.epoch_h is not None
    worth = saving(before.epoch_h, after.epoch_h, epochs=30, price=32.77)
    assert worth.hours_before == pytest.approx(177)
    assert worth.hours_after == pytest.approx(78)
    assert worth.money_saved == pytest.approx(3244.23)
