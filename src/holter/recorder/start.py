"""Records a process that already runs, such as a notebook: `holter.start`, `holter.stop`."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from holter.recorder import imports
from holter.recorder import session as _session
from holter.recorder.guard import tell
from holter.recorder.tensors.requests import requests, to_environment
from holter.schema.companions import own_command
from holter.schema.record import ENV_DISABLE, ENV_SPOOL
from holter.schema.tensor_spool import ENV_SAVE
from holter.schema.windows import ENV_LOOK, ENV_PROFILE, LOOKS
from holter.schema.windows import to_environment as windows_to_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

AGENT_PYTHON = (3, 11)
_BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap")
FINISH_S = 30.0
"""How long `stop` waits for the agent to write what is left."""

_agent: subprocess.Popen[bytes] | None = None
_spool: str | None = None


def start(
    job: str | None = None, store: str | None = None, config: Mapping[str, object] | str | None = None
) -> None:
    """Record this process from now on, as `holter run` does from outside; its later Python children too.

    Does nothing when this process is recorded already or `HOLTER_DISABLE=1`.

    Args:
        job: Name of the job; by default the agent makes one from the script's name and the time.
        store: URL of the store; by default `HOLTER_STORE`, else `./holter-jobs`.
        config: Path of a TOML file with the options of `holter run`, or `{"interval_ms": …, "save": […]}`,
            where `save` is a list of what `--save` takes, and so is `profile-steps`; `look` is as `--look`.

    Raises:
        RuntimeError: The agent did not start, or cannot in this Python; the text says why, and nothing is
            recorded then.
        ValueError: `config` holds an unknown key.
    """
    global _agent, _spool
    if os.environ.get(ENV_DISABLE) == "1" or _session.activate() is not None:
        imports.install()
        return
    if sys.version_info < AGENT_PYTHON:
        running, needed = (".".join(map(str, version[:2])) for version in (sys.version_info, AGENT_PYTHON))
        raise RuntimeError(
            f"holter.start needs Python {needed} or newer, this is {running}: the agent would run in this"
            f" environment. `holter run` from another environment records Python {running} too"
        )
    asked = {
        ENV_SAVE: to_environment(requests(_listed(config, "save"))),
        ENV_PROFILE: windows_to_environment(_listed(config, "profile-steps")),
        ENV_LOOK: _look(_listed(config, "look")),
    }
    spool = tempfile.mkdtemp(prefix="holter-")
    try:
        _agent = _launch(_arguments(job, store, config, spool), spool)
    except BaseException:
        shutil.rmtree(spool, ignore_errors=True)
        raise
    _spool = spool
    os.environ[ENV_SPOOL] = spool
    os.environ.update({name: text for name, text in asked.items() if text})
    paths = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = _BOOTSTRAP + (os.pathsep + paths if paths else "")
    current = _session.Session(spool)
    current.install()
    try:
        current.open(recording=True)
    except OSError as error:
        current.fault("spool", error)
    imports.install()
    # Runs before the end of the session, which is registered earlier: `stop` ends the session first.
    atexit.register(stop)


def stop() -> None:
    """Stop what `start` started and wait until everything is in the store. Does nothing when nothing runs.

    A process recorded by `holter run` goes on being recorded: its end is the job's end.
    """
    global _agent, _spool
    agent, _agent = _agent, None
    if agent is None:
        return
    atexit.unregister(stop)
    imports.uninstall()
    if _session.current is not None:
        _session.current.close()
    for name in (ENV_SPOOL, ENV_SAVE, ENV_PROFILE, ENV_LOOK):
        os.environ.pop(name, None)
    _remove_bootstrap()
    agent.terminate()  # everything is in the spool; its next poll may take a second
    try:
        agent.wait(FINISH_S)
    except subprocess.TimeoutExpired:
        tell(
            f"the agent needs more than {FINISH_S:.0f} s to write what is left in {_spool} and goes on alone"
        )
        _spool = None
    if _spool is not None:
        # The agent removes the folder once everything is stored; else it contains the missing records.
        if not os.path.exists(os.path.join(_spool, "agent.json")):
            shutil.rmtree(_spool, ignore_errors=True)
        _spool = None


def running() -> bool:
    """Return whether `start` records this process now."""
    return _agent is not None


def _arguments(
    job: str | None, store: str | None, config: Mapping[str, object] | str | None, spool: str
) -> list[str]:
    options = [
        "--store", store or os.environ.get("HOLTER_STORE", "holter-jobs"),
        "--attach", str(os.getpid()),
        "--spool", spool,
    ]  # fmt: skip
    if job is not None:
        options.append(f"--job={job}")
    if isinstance(config, str):
        options += ["--config", config]
    else:
        for key, value in (config or {}).items():
            if key in ("save", "profile-steps", "look"):
                continue
            if key != "interval_ms":
                known = "interval_ms, save, profile-steps, look"
                raise ValueError(f"config key {key!r} is not known here; known are {known}")
            options += ["--interval", str(value)]
    return options


def _listed(config: Mapping[str, object] | str | None, key: str) -> list[str]:
    """Return the value of one key of the configuration: a list of texts, or one text."""
    if isinstance(config, str):
        import tomllib  # Python 3.11 has it, and the agent needs that anyway

        with open(config, "rb") as file:
            document = tomllib.load(file)
        found = {**document, **document.get("run", {})}.get(key, [])
    else:
        found = (config or {}).get(key, [])
    return [found] if isinstance(found, str) else list(found)


def _look(given: list[str]) -> str:
    """Return the value of `look`; empty without one. Raises `ValueError`."""
    for one in given:
        if one not in LOOKS:
            raise ValueError(f"look {one!r} is not known; valid: {', '.join(LOOKS)}")
    return given[-1] if given else ""


def _launch(options: list[str], spool: str) -> subprocess.Popen[bytes]:
    """Start the agent and wait until its file shows that it is ready; raises `RuntimeError`."""
    environment = {key: value for key, value in os.environ.items() if key not in (ENV_SPOOL, ENV_DISABLE)}
    log_path = os.path.join(spool, "agent.log")
    with open(log_path, "wb") as log:
        agent = subprocess.Popen(
            own_command("holter.agent", *options),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C in the notebook is not for the agent
        )
    ready = os.path.join(spool, "agent.ready")
    deadline = time.monotonic() + 20
    while not os.path.exists(ready):
        if agent.poll() is not None or time.monotonic() > deadline:
            agent.kill()
            agent.wait()
            with open(log_path, encoding="utf-8", errors="replace") as log_file:
                lines = log_file.read().strip().splitlines()
            raise RuntimeError(
                f"the recording agent did not start: {lines[-1] if lines else 'it said nothing'}"
            )
        time.sleep(0.02)
    return agent


def _remove_bootstrap() -> None:
    rest = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p != _BOOTSTRAP]
    if any(rest):
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    else:
        os.environ.pop("PYTHONPATH", None)
