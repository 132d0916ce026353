"""The progress of a job reaches Kubeflow Trainer's endpoint, a real server with TLS on loopback."""

from __future__ import annotations

import contextlib
import json
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from tests.actions.receivers import Hook, _Http, certificate
from tests.jobs.starting import TRAININGS, environment, holter

from holter.agent.drain.recent import JobNow, RecentRecords
from holter.cli.run.kubeflow import KubeflowStatus, status, wanted

PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/a/trainjobs/b/status"


@contextlib.contextmanager
def endpoint(folder: Path) -> Iterator[tuple[Hook, dict[str, str]]]:
    """Run an endpoint; yields what it was sent, and the variables that the controller sets."""
    cert, key = certificate(folder)
    token = folder / "token"
    token.write_text("first\n")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Http) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.hook = hook = Hook(f"https://localhost:{server.server_address[1]}{PATH}")  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield (
            hook,
            {
                "KUBEFLOW_TRAINER_SERVER_URL": hook.url,
                "KUBEFLOW_TRAINER_SERVER_CA_CERT": str(cert),
                "KUBEFLOW_TRAINER_SERVER_TOKEN": str(token),
            },
        )
        server.shutdown()
        thread.join()


def records(**more: object) -> RecentRecords:
    """Return the records of a job with 20 steps of 100 ms out of 200."""
    number = np.arange(20)
    spans = {
        "time": number * 100_000_000,
        "duration": np.full(20, 100_000_000),
        "rank": np.zeros(20, np.int32),
        "worker": np.full(20, -1, np.int16),
        "thread": np.zeros(20, np.int16),
        "step": number,
        "mode": np.array(["train"] * 20, object),
        "phase": np.array(["step"] * 20, object),
        "value": np.zeros(20),
    }
    made = RecentRecords()
    made.now = JobNow(19, None, 0, 200, (spans,))._replace(**more)
    return made


def test_the_status_of_a_running_job():
    told = status(records(numbers={"loss": 0.25}).now, None, 0)
    assert told["progressPercentage"] == 10
    assert told["estimatedRemainingSeconds"] == 18
    metrics = {one["name"]: one["value"] for one in told["metrics"]}
    assert metrics == {"step": "20", "step_seconds": "0.1", "loss": "0.25"}
    assert told["lastUpdatedTime"] == "1970-01-01T00:00:00Z"


def test_what_is_unknown_is_left_out():
    told = status(records(planned=None, numbers={str(at): 1.0 for at in range(400)}).now, None, 0)
    assert "progressPercentage" not in told
    assert "estimatedRemainingSeconds" not in told
    assert len(told["metrics"]) == 256


def test_requests_carry_the_token_of_the_moment(tmp_path: Path):
    with endpoint(tmp_path) as (hook, variables):
        lines: list[str] = []
        with KubeflowStatus(records(), variables, lines.append, every_s=0.05):
            deadline = time.monotonic() + 30
            while not hook.requests and time.monotonic() < deadline:
                time.sleep(0.01)
            Path(variables["KUBEFLOW_TRAINER_SERVER_TOKEN"]).write_text("second")
        assert lines == []
        method, path, headers, body = hook.requests[0]
        assert (method, path, headers["authorization"]) == ("POST", PATH, "Bearer first")
        assert json.loads(body)["trainerStatus"]["progressPercentage"] == 10
        assert hook.requests[-1][2]["authorization"] == "Bearer second"


def test_transformers_reports_itself(tmp_path: Path):
    with endpoint(tmp_path) as (hook, variables):
        trainer = records(owner="transformers.Trainer")
        with KubeflowStatus(trainer, variables, print, every_s=60):
            pass
        assert hook.requests == []
        with KubeflowStatus(
            trainer, {**variables, "DISABLE_KUBEFLOW_INTEGRATION": "true"}, print, every_s=60
        ):
            pass
        assert len(hook.requests) == 1


@pytest.mark.parametrize("change", ["refused", "distrusted", "no token"])
def test_an_endpoint_that_does_not_take_it_is_named_once(tmp_path: Path, change):
    with endpoint(tmp_path) as (hook, variables):
        hook.answers = [(403, {}, b"the token is of another job")] * 100
        if change == "distrusted":
            del variables["KUBEFLOW_TRAINER_SERVER_CA_CERT"]
        if change == "no token":
            Path(variables["KUBEFLOW_TRAINER_SERVER_TOKEN"]).unlink()
        lines: list[str] = []
        with KubeflowStatus(records(), variables, lines.append, every_s=0.02):
            time.sleep(0.2)
    expected = {
        "refused": "HTTP 403: the token is of another job",
        "distrusted": "certificate verify failed",
        "no token": "token: No such file",
    }
    assert len(lines) == 1
    assert expected[change] in lines[0]
    assert "first" not in lines[0]


def test_only_the_first_node_of_a_train_job_reports():
    url = {"KUBEFLOW_TRAINER_SERVER_URL": "https://a"}
    assert wanted(url)
    assert not wanted({})
    assert not wanted({**url, "JOB_COMPLETION_INDEX": "1"})
    assert not wanted({**url, "PET_NODE_RANK": "1", "JOB_COMPLETION_INDEX": "0"})


@pytest.mark.slow
def test_a_recorded_training(tmp_path: Path):
    with endpoint(tmp_path) as (hook, variables):
        words = ["run", "--store", str(tmp_path / "jobs"), "--job", "a", "--total-steps", "30", "--"]
        holter(
            *words, sys.executable, str(TRAININGS / "plain.py"), "--steps", "30", env=environment(**variables)
        )
        last = json.loads(hook.requests[-1][3])["trainerStatus"]
    assert last["progressPercentage"] == 100
    assert last["estimatedRemainingSeconds"] == 0
