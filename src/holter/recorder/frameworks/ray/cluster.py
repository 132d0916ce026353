"""Lets the workers of a running Ray cluster be recorded: a driver that connects to it passes the recorder on.

Workers of a cluster that the driver itself starts inherit its environment. Those of a running cluster do not,
so that the driver adds variables to the runtime environment of its job. Loaded with Ray, which many scripts
import without training with it, so it imports nothing that takes time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from holter.recorder.guard import tell
from holter.schema.record import ENV_SPOOL

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from holter.recorder.patches import Patches

_OURS = "HOLTER_"
_PATH = "PYTHONPATH"
_BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bootstrap")


def watch(worker: ModuleType, patches: Patches) -> None:
    """Pass the recorder on whenever this process connects to a running cluster as a driver.

    `ray.init` calls `connect` after hooks of the user (`RAY_RUNTIME_ENV_HOOK`) have made the runtime
    environment, so that these stay as they are.
    """
    original = getattr(worker, "connect", None)
    if original is not None:
        patches.replace(worker, "connect", _connecting(original, getattr(worker, "SCRIPT_MODE", None)))


def _connecting(original: Callable[..., Any], driver: object) -> Callable[..., Any]:
    def connect(node: Any, session_name: Any, mode: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            job = kwargs.get("job_config")
            if mode == driver and not node.head and job is not None and os.environ.get(ENV_SPOOL):
                job.set_runtime_env(passed_on(dict(job.runtime_env or {}), os.environ))
        except Exception as error:
            tell(f"workers of the Ray cluster are not recorded: {type(error).__name__}: {error}")
        return original(node, session_name, *(() if mode is None else (mode,)), *args, **kwargs)

    return connect


def passed_on(runtime: dict[str, Any], variables: Any) -> dict[str, Any]:
    """Return a runtime environment with the recorder's variables; what the user has set stays.

    Ray replaces `${PYTHONPATH}` by the path that the worker would have. With `working_dir` or `py_modules` it
    appends that path itself.
    """
    given = dict(runtime.get("env_vars") or {})
    ours = {name: text for name, text in variables.items() if name.startswith(_OURS)}
    rest = given.get(_PATH)
    if rest is None and not ("working_dir" in runtime or "py_modules" in runtime):
        rest = f"${{{_PATH}}}"
    ours[_PATH] = os.path.normpath(_BOOTSTRAP) + (os.pathsep + rest if rest else "")
    return {**runtime, "env_vars": {**ours, **given, _PATH: ours[_PATH]}}
