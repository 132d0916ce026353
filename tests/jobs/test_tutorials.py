"""The tutorials run as printed, each in an environment with only what its page installs."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tests.jobs.code_blocks import BASH, PYTHON
from tests.jobs.starting import ROOT
from tests.recorder.reading import edges, pythons

import holter

INSTALL = re.compile(r"`pip install -e '?\.(\[[a-z,]+\])?'?((?: [a-z0-9-]+)*)`")
"""What a page says of the environment: extras of holter's, and packages beside it."""

PAGES = re.compile(r"^holter ui$", re.MULTILINE)
PAGES_AND_CTRL_C = "timeout --preserve-status --signal INT 10 holter ui --port 0 || [ $? = 130 ]"

# A tutorial → what must be seen, on either stream, in this order.
SEEN = {
    "first-job": (r"decode_photo|slow_transform", r'"data_pipeline"', r"http://127\.0\.0\.1:\d+"),
    "slow-data-loader": (r"Data loading takes", r"augment", r"^data_pipeline$", r"less time"),
    "nan-hunt": (
        r"NonFinite",
        r"Stopped",
        r"first bad loss: step \d+ of (?!2000$)\d+",
        r"step \d+: gradient/scale\.bias has mean",
    ),
    "two-ranks": (r"rank 0: forward 1\d ms", r"rank 1: forward 4\d ms", r"StragglerRank"),
    "compare-and-gate": (
        r"cost of the job",
        r"more time",
        r"changed: command",
        r"regression: .*\n(.*\n)*?exit code 1",
        r"pass: ",
        r"### ❌ step time: regression",
    ),
    "own-rule": (
        r"3 passed",
        r"GradientTooLarge: distance is",
        r"The point is too far away \(step",
        r"distance > 0\.3 for 3 steps: step",
    ),
    "old-sagemaker-job": (
        r"gpu0? is underused|LowGPUUtilization",
        r"gpu\.util +3\d\.",
        r"DataLoader +200 times, 300 ms",
    ),
    # The last of the pages that need holter alone: it leaves a package in their environment.
    "own-collector": (r"[1-9]\d* readings, from [1-9]",),
}


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of programs of the environment that a page asks for: one for each set of packages."""
    made = tmp_path_factory.mktemp("environments")
    # The wheel of a release: what the build leaves out is missing here as it is for users.
    done = subprocess.run(
        [str(ROOT / "scripts/release"), str(made / "dist")],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((made / "dist").glob("holter-*.whl"))) == 4, "glibc and musl, on two machines"
    (wheel,) = (made / "dist").glob(f"holter-*abi3-manylinux*_{platform.machine()}.whl")
    assert len(list((made / "dist").glob("holter-*.tar.gz"))) == 1

    @cache
    def programs(extras: str, packages: tuple[str, ...], python: str = sys.executable) -> Path:
        version = Path(python).name
        venv = made / "-".join(["venv", version, *packages, extras.strip("[]")]).rstrip("-")
        subprocess.run([python, "-m", "venv", str(venv)], check=True)
        constraints = ("--constraint", str(ROOT / "constraints.txt"))
        _pip(venv / "bin/python", "install", "-q", *constraints, f"{wheel}{extras}", *packages)
        return venv / "bin"

    def of(page: str, python: str = sys.executable) -> Path:
        told = INSTALL.search(page)
        assert told, "the page does not say what to install"
        return programs(told[1] or "", tuple(told[2].split()), python)

    return of


def _pip(python: Path, *words: str) -> None:
    done = subprocess.run(
        [str(python), "-m", "pip", "--disable-pip-version-check", *words],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _typed(script: str, folder: Path, programs: Path) -> str:
    """Run shell lines as a reader with this environment types them; return both streams."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLTER_", "PYTHON"))}
    env = {
        **kept,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "VIRTUAL_ENV": str(programs.parent),
        "TMPDIR": str(folder),
        "COLUMNS": "120",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEN)
def test_a_tutorial_as_written(name: str, tmp_path: Path, surroundings: Callable[[str], Path]) -> None:
    page = (ROOT / f"docs/tutorials/{name}.md").read_text()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    programs = surroundings(page)
    # The environment that a page activates is the one that it is given here.
    blocks = [block for block in BASH.findall(page) if "activate" not in block]
    output = _typed(PAGES.sub(PAGES_AND_CTRL_C, "".join(blocks)), tmp_path, programs)
    at = 0
    for wanted in SEEN[name]:
        found = re.compile(wanted, re.MULTILINE).search(output, at)
        assert found, f"not seen: {wanted}\n{output}"
        at = found.start()
    if name == "first-job":
        # The pages on reading use the job that the tutorial made.
        for program in PYTHON.findall((ROOT / "docs/how-to/read-with-duckdb.md").read_text()):
            assert _typed(f"python - <<'END'\n{program}\nEND", tmp_path, programs).strip()


@pytest.mark.slow
def test_the_demo_runs_from_the_wheel(tmp_path: Path, surroundings: Callable[..., Path]) -> None:
    programs = surroundings("`pip install -e '.[demo]'`")
    output = _typed(
        "holter --version; holter demo --store jobs; holter jobs --store jobs", tmp_path, programs
    )
    assert output.startswith(f"holter {holter.__version__}")
    assert "Data loading takes" in output


@pytest.mark.slow
def test_holter_and_the_training_have_environments_of_their_own(
    tmp_path: Path, surroundings: Callable[..., Path]
) -> None:
    """holter is installed under the newest Python and without torch; the training runs in another one."""
    newest = pythons()[edges()[-1]]
    programs = surroundings("`pip install -e .`", newest)
    training = surroundings("`pip install -e '.[demo]'`") / "python"
    script = (
        f"holter run --job apart --store jobs -- {training} "
        f"'{ROOT}/tests/jobs/trainings/plain.py' --steps 300"
    )
    output = _typed(f"{script}\nholter describe apart --store jobs --json > told.json", tmp_path, programs)
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["steps"]["count"] == 300, output
    assert told["job"]["status"] == "Completed"


def test_every_tutorial_is_typed() -> None:
    assert set(SEEN) == {page.stem for page in (ROOT / "docs/tutorials").glob("*.md")}
