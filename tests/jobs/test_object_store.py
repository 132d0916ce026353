"""Jobs recorded directly into an object store: servers of S3 and of Azure on the loopback interface."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.azurite import Azurite
from tests.gateway import Gateway
from tests.jobs.starting import TRAININGS, environment, here, holter, wait_for

import holter as holter_package
from holter.store import job

PYTHON = sys.executable


@pytest.fixture
def store(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty store in a bucket of its own, and an environment that reaches it."""
    for name, value in {**gateway.variables, "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    return f"{gateway.bucket()}/trainings"


@pytest.fixture(params=["s3", "azure"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty store on each kind of server."""
    if request.param == "s3":
        s3: str = request.getfixturevalue("store")
        return s3
    azurite: Azurite = request.getfixturevalue("azurite")
    for name, value in {**azurite.variables, "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    return f"{azurite.container()}/trainings"


@pytest.fixture
def running(store: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A job `long` that trains until it is told to stop, or for ten minutes, with whole tensors saved."""
    words = ["run", "--store", store, "--job", "long", "--save", "weights@50:raw", "--"]
    with subprocess.Popen(
        [
            PYTHON,
            "-m",
            "holter",
            *words,
            PYTHON,
            str(TRAININGS / "steady.py"),
            str(tmp_path / "steps"),
            "600",
        ],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for(lambda: job.jobs(store))
        yield process
        if process.poll() is None:
            process.terminate()


@pytest.mark.slow
def test_commands_on_a_running_job_and_on_what_it_left(
    store: str, running: subprocess.Popen[str], tmp_path: Path
) -> None:
    url = f"{store}/long"
    assert "long" in holter("jobs", "--store", store).stdout
    opened = holter_package.open(url)
    wait_for(
        lambda: opened.scalars.select(name="loss").table.rows > 0 and opened.tensors(role="weight").names
    )
    here("configure", "long", "--interval", "100ms", "--store", store)
    wait_for(lambda: opened.folder.manifest()["interval_ms"] == 100)
    wait_for(lambda: opened.folder.evaluations().get("rules"))
    told = json.loads(here("describe", url, "--json").stdout)
    assert told["job"]["status"] == "InProgress"
    assert told["steps"]["count"] > 10
    assert {rule["status"] for rule in told["rules"]} <= {"InProgress", "NoIssuesFound", "IssuesFound"}
    here("stop", "long", "--store", store)
    _, card = running.communicate(timeout=300)
    assert "holter" in card

    told = json.loads(here("describe", "long", "--store", store, "--json").stdout)
    assert (told["job"]["status"], told["cost"]["dropped"]) == ("Stopped", 0)
    assert told["skipped"] == []
    weight = opened.tensors(role="weight")
    assert weight.names
    whole = opened.tensors()["weight"]
    assert whole.value(whole.steps()[0]).shape == (1, 8)
    assert here("rules", "run", url, "LossNotDecreasing", check=False).returncode in (0, 3)
    assert "verdict" in json.loads(here("diagnose", url, "--json").stdout)
    exported = here("export", url, "--format", "tensorboard", "-o", str(tmp_path / "runs"))
    assert "values" in exported.stdout
    # What is in the store says nothing of how it is reached.
    secret = environment()["AWS_SECRET_ACCESS_KEY"].encode()
    place = opened.folder.place
    assert not [entry.key for entry in place.files() if secret in place.read(entry.key)]
    here("prune", "--keep", "0", "--yes", "--store", store)
    assert here("jobs", "--store", store).stdout.startswith("No job in ")


@pytest.mark.slow
def test_a_store_that_vanishes_for_a_while_or_for_good(
    store: str, gateway: Gateway, running: subprocess.Popen[str], tmp_path: Path
) -> None:
    opened = holter_package.open(f"{store}/long")
    wait_for(lambda: opened.scalars.select(name="loss").table.rows > 0)
    steps, other_steps = tmp_path / "steps", tmp_path / "other-steps"
    words = ["run", "--store", store, "--job", "cut", "--no-rules", "--", PYTHON]
    with subprocess.Popen(
        [PYTHON, "-m", "holter", *words, str(TRAININGS / "steady.py"), str(other_steps), "600", "100"],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as cut:
        wait_for(other_steps.exists)
        gateway.pause()
        try:
            # One training ends meanwhile; the other does not wait for the store, though its agent tries to
            # write every few seconds.
            before = progress(steps)
            _, said = cut.communicate(timeout=300)
            wait_for(lambda: progress(steps) > before + 400)
        finally:
            gateway.resume()
    assert cut.returncode == 0
    said = " ".join(said.split())
    lost = re.search(r"cannot be reached; ([\d,]+) rows that were not stored yet are lost; ", said)
    assert lost
    assert int(lost[1].replace(",", "")) >= progress(other_steps)
    assert f"holter describe {store}/cut; the command was not touched" in said
    assert progress(other_steps) == 100

    here("stop", "long", "--store", store)
    _, card = running.communicate(timeout=300)
    told = json.loads(here("describe", "long", "--store", store, "--json").stdout)
    assert told["job"]["status"] == "Stopped"
    # All of it arrived, each row once, and that the store was away is said.
    assert told["cost"]["dropped"] == 0
    recorded = opened.scalars.select(name="loss").table["step"].tolist()
    assert len(recorded) == len(set(recorded))
    assert abs(len(recorded) - progress(steps)) <= 2
    assert any("cannot be reached" in fault["error"] for fault in told["cost"]["faults"]), card


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            {"AWS_SECRET_ACCESS_KEY": "wrong"},
            "denies access (SignatureDoesNotMatch); check AWS_ACCESS_KEY_ID",
        ),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "denies access (InvalidAccessKeyId); check AWS_ACCESS_KEY_ID"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "http://127.0.0.1:1 cannot be reached"),
        ({"store": "s3://no-such-bucket/x"}, "there is no bucket 'no-such-bucket'"),
        ({"store": "s3://key:word@jobs/x"}, "credentials belong in the environment"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_at_once(
    store: str, tmp_path: Path, what: dict[str, str], said: str
) -> None:
    url = what.pop("store", store)
    ran = tmp_path / "ran"
    done = holter("run", "--store", url, "--", "touch", str(ran), check=False, env=environment(**what))
    assert (done.returncode, done.stdout) == (64, "")
    (line,) = done.stderr.splitlines()
    assert said in line
    assert "wrong" not in line
    assert not ran.exists()
    listed = holter("jobs", "--store", url, check=False, env=environment(**what))
    assert listed.returncode == 65
    assert said in listed.stderr


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"AZURE_STORAGE_ACCOUNT_NAME": ""}, "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"),
        ({"AZURE_STORAGE_ACCOUNT_KEY": "d3Jvbmc="}, "denies access (AuthorizationFailure); check AZURE_"),
        ({"AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:1/me"}, "http://127.0.0.1:1 cannot be reached"),
        ({"store": "az://nowhere/x"}, "there is no bucket 'nowhere'"),
    ],
)
def test_a_store_on_azure_that_cannot_be_used_is_refused(
    azurite: Azurite, what: dict[str, str], said: str
) -> None:
    reach = {name: value for name, value in {**azurite.variables, **what}.items() if value}
    url = reach.pop("store", azurite.container())
    done = holter("run", "--store", url, "--", "true", check=False, env=environment(**reach))
    assert (done.returncode, done.stdout) == (64, "")
    (line,) = done.stderr.splitlines()
    assert said in line


def test_a_job_on_azure(azurite: Azurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**azurite.variables, "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    store = f"{azurite.container()}/trainings"
    loop = "import holter\nfor _ in holter.steps(range(40)): holter.log(loss=1.0)"
    said = holter("run", "--store", store, "--job", "a", "--", PYTHON, "-c", loop).stderr
    assert "40 steps" in said
    document = json.loads(holter("describe", f"{store}/a", "--json").stdout)
    assert (document["steps"]["trainings"], document["job"]["status"]) == ([40], "Completed")
    assert [one["last"] for one in document["numbers"]] == [1.0]
    assert holter("prune", "--store", store, "--keep", "0", "--yes").returncode == 0
    assert job.jobs(store) == []


def test_doctor_says_whether_the_store_can_be_used(store: str) -> None:
    said = holter("doctor", check=False, env=environment(HOLTER_STORE=store)).stdout
    assert f"{store}: writable, 0 jobs" in " ".join(said.split())
    wrong = environment(HOLTER_STORE=store, AWS_SECRET_ACCESS_KEY="wrong")
    assert "denies access" in holter("doctor", check=False, env=wrong).stdout


def test_of_two_that_take_one_name_at_once_one_gets_it(any_store: str) -> None:
    def create(_: int) -> str:
        try:
            made = job.create(any_store, "same", command=["true"], interval_ms=500, rules=[], now_ns=1)
        except job.JobExists as error:
            return str(error)
        return str(made.manifest()["id"])

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(create, range(8)))
    got = [one for one in said if one == job.find(any_store, "same").manifest()["id"]]
    assert len(got) == 1
    assert sum("job 'same' exists" in one for one in said) == 7


def test_changes_of_a_document_by_many_at_once_are_all_kept(any_store: str) -> None:
    folder = job.create(any_store, "a", command=["true"], interval_ms=500, rules=[], now_ns=1)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: job.find(any_store, "a").order(**{f"order{n}": n}), range(12)))
    assert folder.control() == {f"order{n}": n for n in range(12)}
    assert folder.place.read("control.json")
    with pytest.raises(FileNotFoundError):
        folder.place.read(".lock")


def progress(steps: Path) -> int:
    """Return how many steps the training has counted."""
    return len(steps.read_bytes())
