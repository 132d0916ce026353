"""Payloads in a store: what would run, were it taken for more than data, on every route into a reader."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import zipfile
from pathlib import Path

ROUTES = (
    "rules", "rule-texts", "actions", "evaluations", "manifest", "messages", "tables", "tensors", "traces",
    "configuration", "report", "plug-ins", "links", "control",
)  # fmt: skip


class Payload:
    """What runs when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self):
        return (os.system, (f"touch {self.canary}",))


def code(canary: Path) -> str:
    """Return a module that runs when it is imported, and is a rule besides."""
    return (
        f"open({str(canary)!r}, 'w').close()\nfrom holter.rules import Rule\n"
        "class Evil(Rule):\n    reads = ('steps',)\n    def evaluate(self, window):\n        yield from ()\n"
    )


def planted_action(canary: Path) -> dict[str, object]:
    """Return an action as a manifest holds it, which would run a command."""
    return {
        "name": "run", "action": "run_command", "options": {"argv": ["touch", str(canary)]}, "on": [],
        "severity": "info", "dry_run": False,
    }  # fmt: skip


def plant(route: str, folder, canary: Path, home: Path) -> None:
    """Put a payload into a job, by one route."""
    path = Path(folder.url)
    evil = path / "payload.py"
    shell = f"$(touch {canary}); `touch {canary}`; | touch {canary}"
    text = (
        f"<script>x</script>{shell}\n!touch {canary}\n%%bash\ntouch {canary}\n{{0.__class__}}__import__('os')"
    )
    rotten = pickle.dumps(Payload(canary))
    if route in ("rules", "actions", "plug-ins", "evaluations"):
        evil.write_text(code(canary))
    if route == "rules":
        folder.update(rules=[{"name": "x", "rule": f"{evil}:Evil", "parameters": {}}])
    elif route == "rule-texts":
        evil.write_text(code(canary))
        folder.update(rules=[f"{evil}:Evil", str(evil), {"name": f"{evil}:Evil"}, ["x"], None, 3])
    elif route == "actions":
        folder.update(rules=[{"name": "DataloaderBottleneck"}], actions=[planted_action(canary)])
    elif route == "evaluations":
        rule = {"name": f"{evil}:Evil", "rule": f"{evil}:Evil", "status": "IssuesFound", "issues": []}
        folder.write_evaluations({"schema": 1, "rules": [rule], "actions": {"run": {}}, "progress": {}})
    elif route == "manifest":
        folder.update(
            command=["sh", "-c", text], name=text, launch={"id": text}, recorded={"code": {"revision": text}},
            verdict={"headline": text}, tags={text: text}, stopped_by=text, framework={"name": text},
        )  # fmt: skip
        folder.write_node("n", {"node": text, "cpus": 1})
    elif route == "messages":
        from holter.store.writer import Writer

        writer, detail = Writer(folder, "n"), json.dumps({"type": text, "message": text, "traceback": text})
        for kind in ("exception", "fault", "hang", "control", "window", "stacks"):
            now = folder.manifest()["start"] + 1
            row = {"time": [now], "rank": [0], "kind": [kind], "name": [text], "detail": [detail]}
            writer.append("events", row)
        writer.close()
    elif route == "tables":
        import pyarrow
        import pyarrow.parquet

        field = pyarrow.field(
            "time", pyarrow.int64(), metadata={
                "ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": rotten
            },
        )  # fmt: skip
        own = pyarrow.table([pyarrow.array([1])], schema=pyarrow.schema([field], metadata={"pandas": rotten}))
        target = path / "scalars/node=n/0000000000000000001-00000000-00000000.parquet"
        target.parent.mkdir(parents=True)
        pyarrow.parquet.write_table(own, target)
        (target.parent / "0000000000000000002-00000001-00000001.parquet").write_bytes(rotten)
    elif route == "tensors":
        raw = path / "tensors-raw/node=n/rank=0"
        raw.mkdir(parents=True)
        (raw / "000000001-train.safetensors").write_bytes(rotten)
        with zipfile.ZipFile(raw / "000000002-train.safetensors", "w") as archive:
            archive.writestr("archive/data.pkl", rotten)
        (raw / "000000003-train.safetensors").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr': '|O'}" + rotten)
        (path / "tensors.json").write_bytes(rotten)
    elif route == "traces":
        for name in ("trace.json", "trace.pt", "trace.pkl", "stats.pstats", "snapshot.pickle", "a.nsys-rep"):
            (path / name).write_bytes(rotten)
    elif route == "configuration":
        settings = (
            f'rule = ["{evil}:Evil"]\n[[actions]]\narmed = true\ndo = ["run_command:argv=touch {canary}"]\n'
        )
        evil.write_text(code(canary))
        for name in ("holter.toml", "../holter.toml", "pyproject.toml"):
            (path / name).write_text(settings)
        (path / "profilerconfig.json").write_text(json.dumps({"RuleConfigurations": [str(evil)]}))
    elif route == "report":
        for name in ("description.json", "heatmap.bin", "otlp.json", "tiles/0.bin"):
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_bytes(rotten)
        kept = path / "rule-output/ProfilerReport-1/profiler-output"
        kept.mkdir(parents=True)
        (kept / "profiler-report.ipynb").write_bytes(rotten)
    elif route == "plug-ins":
        plant_plug_ins(path, canary)
    elif route == "links":
        for name in ("evaluations.json", "control.json", "nodes/x.json", "tensors.json", "otlp.json"):
            (path / name).unlink(missing_ok=True)
            (path / name).symlink_to(home / "private.json")
        for name in ("description.json", "heatmap.bin"):
            (path / name).symlink_to(home / "made-by-a-link")
        for name in ("tiles", "rule-output", "tensors"):
            shutil.rmtree(path / name, ignore_errors=True)
            (path / name).symlink_to(home)
    elif route == "control":
        order = {"python": str(evil), "operators": str(evil), "argv": ["touch", str(canary)]}
        orders = {"profile": order, "stop": {"by": text}, "run": str(evil), "rules": [str(evil)]}
        folder.place.write("control.json", json.dumps(orders).encode())


def plant_plug_ins(path: Path, canary: Path) -> None:
    """Put into a folder what Python imports by itself where the folder is on its path."""
    names = ("sitecustomize", "usercustomize", "conftest", "evil", "numpy", "rich", "duckdb", "tomllib")
    for name in names:
        (path / f"{name}.py").write_text(code(canary))
    (path / "x.pth").write_text(f"import os; os.system('touch {canary}')\n")
    package = path / "evil-1.0.dist-info"
    package.mkdir(exist_ok=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    points = "[holter.rules]\nEvil = evil:Evil\n[holter.actions]\nevil = evil:Evil\n"
    (package / "entry_points.txt").write_text(points)
