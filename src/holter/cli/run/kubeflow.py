"""Tells Kubeflow Trainer the progress of a job while it runs: percent, seconds left, and metrics.

The controller sets the address of the job's status and the paths of a certificate and of a token, if its
feature gate TrainJobStatus is on.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import ssl
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from holter.cli.run.pace import recent_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holter.agent.drain.recent import JobNow, RecentRecords

EVERY_S = 15.0
TIMEOUT_S = 5.0
MOST_METRICS = 256
"""The controller refuses more."""
_LONGEST_VALUE = 64
_LAST_S = 6.0
"""How long the end of a job waits for a request that is under way."""


def wanted(variables: Mapping[str, str]) -> bool:
    """Return whether this process is the one of a TrainJob that reports: on the first node."""
    node = variables.get("PET_NODE_RANK") or variables.get("JAX_PROCESS_ID") or variables.get("RANK") or "0"
    first = variables.get("JOB_COMPLETION_INDEX", "0") == "0" and node == "0"
    return bool(variables.get("KUBEFLOW_TRAINER_SERVER_URL")) and first


class KubeflowStatus:
    """Sends the status from a thread of its own until the job has ended; `tell` prints a line."""

    def __init__(
        self,
        recent: RecentRecords,
        variables: Mapping[str, str],
        tell: Callable[[str], None],
        total: int | None = None,
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._recent = recent
        self._url = variables["KUBEFLOW_TRAINER_SERVER_URL"]
        self._certificate = variables.get("KUBEFLOW_TRAINER_SERVER_CA_CERT")
        self._token = variables.get("KUBEFLOW_TRAINER_SERVER_TOKEN")
        self._own = variables.get("DISABLE_KUBEFLOW_INTEGRATION", "").upper() == "TRUE"
        """Whether the integration of transformers is switched off, so that it does not report."""
        self._tell = tell
        self._total = total
        self._every_s = every_s
        self._told = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holter-kubeflow", daemon=True)

    def __enter__(self) -> KubeflowStatus:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(_LAST_S)

    def _run(self) -> None:
        while not self._end.wait(self._every_s):
            self._send()
        self._send()

    def _send(self) -> None:
        now = self._recent.now
        # Its Trainer sends the same, with metrics under other names: two writers would overwrite each other.
        if now.step < 0 or (now.owner == "transformers.Trainer" and not self._own):
            return
        try:
            self._post(json.dumps({"trainerStatus": status(now, self._total, time.time())}).encode())
        except Exception as error:  # no status is worth a fault of the job
            if not self._told:
                self._told = True
                self._tell(f"Kubeflow Trainer does not take the progress of the job: {_reason(error)}")

    def _post(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        if self._token:
            with open(self._token, encoding="utf-8") as file:  # it is exchanged every hour
                headers["Authorization"] = f"Bearer {file.read().strip()}"
        context = None
        if self._url.startswith("https:"):
            context = ssl.create_default_context(cafile=self._certificate)
        elif not self._url.startswith("http:"):
            raise ValueError("KUBEFLOW_TRAINER_SERVER_URL is no HTTP address")
        request = urllib.request.Request(self._url, data=body, headers=headers)  # noqa: S310 - see above
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context):  # noqa: S310 - see above
            pass


def status(now: JobNow, total: int | None, at_s: float) -> dict[str, Any]:
    """Return the status of a job as TrainJob holds it; what is unknown is left out."""
    total = total or now.planned
    _, each_s = recent_steps(now)
    found: dict[str, Any] = {}
    if total:
        found["progressPercentage"] = min(100 * (now.step + 1) // total, 100)
        if each_s is not None:
            found["estimatedRemainingSeconds"] = math.ceil(max(total - now.step - 1, 0) * each_s)
    values = {"step": float(now.step + 1), **({"step_seconds": each_s} if each_s is not None else {})}
    values |= {name: value for name, value in sorted(now.numbers.items()) if name not in values}
    found["metrics"] = [
        {"name": name, "value": f"{value:.6g}"[:_LONGEST_VALUE]}
        for name, value in list(values.items())[:MOST_METRICS]
    ]
    found["lastUpdatedTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))
    return found


def _reason(error: Exception) -> str:
    """Return why a request failed, without the token."""
    if isinstance(error, urllib.error.HTTPError):
        with error, contextlib.suppress(OSError):
            reply = " ".join(error.read(300).decode(errors="replace").split())
            return f"HTTP {error.code}" + (f": {reply}" if reply else "")
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    if isinstance(error, OSError) and error.filename:
        return f"{os.fspath(error.filename)}: {error.strerror}"
    return f"{type(error).__name__}: {error}"
