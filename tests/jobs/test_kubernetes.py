"""The recipes for Kubernetes: the chart renders with Helm, and all manifests are valid by its schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

RECIPES = Path(__file__).parents[2] / "examples/kubernetes"
CHART = RECIPES / "chart"
SEVERAL: dict[str, Any] = {
    "store": "/jobs",
    "volumeClaim": "jobs",
    "serviceAccount": "trainer",
    "credentialsSecret": "bucket",
    "training": {
        "command": ["train.py", "--rate", "0.1"], "nodes": 3, "gpus": 8, "timeLimitHours": 1.5,
        "options": ["--save", "losses@10"],
    },
    "dashboard": {"publicHost": "jobs.example.org", "tokenSecret": "secret"},
}  # fmt: skip


@pytest.fixture
def helm() -> Any:
    """Return Helm as a library. Its wheel for Linux is for x86-64 only."""
    return pytest.importorskip("helm_python", reason="Helm is missing: pip install helm-python-sdk")


def rendered(helm: Any, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the chart's valid manifests by kind, and by name where a kind has several."""
    texts = helm.Chart.load(CHART).render(values, name="bert", namespace="ml")
    found: dict[str, dict[str, Any]] = {}
    for path, text in texts.items():
        for one in yaml.safe_load_all(text) if path.endswith(".yaml") else ():
            if one is None:
                continue
            kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)
            found[f"{one['kind']} {one['metadata']['name']}"] = one
    return found


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the only container of a workload."""
    (found,) = manifest["spec"]["template"]["spec"]["containers"]
    return dict(found)


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.name)
def test_a_manifest_is_valid(path: Path) -> None:
    for one in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


def test_helm_finds_no_mistake_in_the_chart(helm: Any) -> None:
    for values in ({}, SEVERAL):
        report = helm.lint(CHART, values, strict=True)
        assert report["errors"] == []
        assert [one for one in report["messages"] if one["severity"] > 1] == []


def test_the_chart_of_one_node(helm: Any) -> None:
    found = rendered(helm, {})
    assert list(found) == ["Secret bert-dashboard", "Deployment bert-dashboard", "Job bert-training"]
    training = container(found["Job bert-training"])
    assert training["command"] == ["/opt/holter/bin/holter", "run", "--"]
    assert training["args"] == ["python", "train.py"]
    assert training["env"] == [{"name": "HOLTER_STORE", "value": "s3://my-bucket/jobs"}]
    # Without a name for a proxy, the dashboard is reached by a forwarded port only.
    dashboard = container(found["Deployment bert-dashboard"])
    assert dashboard["args"] == ["--host=127.0.0.1"]
    assert dashboard["env"][1]["valueFrom"]["secretKeyRef"] == {"name": "bert-dashboard", "key": "token"}


def test_the_chart_of_several_nodes(helm: Any) -> None:
    found = rendered(helm, SEVERAL)
    assert list(found) == [
        "Service bert-dashboard", "Deployment bert-dashboard", "Service bert-training", "Job bert-training",
    ]  # fmt: skip
    job, training = found["Job bert-training"]["spec"], container(found["Job bert-training"])
    assert (job["completionMode"], job["completions"], job["activeDeadlineSeconds"]) == ("Indexed", 3, 5400)
    assert job["template"]["spec"]["subdomain"] == found["Service bert-training"]["metadata"]["name"]
    options = ["--job", "bert", "--rule", "TimeLimit:limit_h=1.5", "--save", "losses@10", "--"]
    assert training["command"] == ["/opt/holter/bin/holter", "run", *options]
    assert training["args"][:3] == ["torchrun", "--nnodes=3", "--nproc-per-node=8"]
    assert training["args"][-3:] == ["train.py", "--rate", "0.1"]
    assert {one["mountPath"] for one in training["volumeMounts"]} == {"/dev/shm", "/jobs"}
    dashboard = container(found["Deployment bert-dashboard"])
    assert dashboard["args"] == ["--host=0.0.0.0", "--public-host=jobs.example.org"]
    assert dashboard["envFrom"] == [{"secretRef": {"name": "bucket"}}]


def test_each_part_of_the_chart_can_be_left_out(helm: Any) -> None:
    assert list(rendered(helm, {"dashboard": {"enabled": False}})) == ["Job bert-training"]
    alone = rendered(helm, {"training": {"enabled": False}})
    assert "Job bert-training" not in alone
    assert "Deployment bert-dashboard" in alone
