"""Sends a job to Weights & Biases: to the run of the training, by its id, once the training has ended.

Two processes cannot write the history of one run at the same time, so the numbers wait for the end.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holter.report.sinks import PREFIX, SinkError
from holter.schema.protobuf import fields
from holter.schema.varint import BadMessageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holter.report.sinks import SentJob, StepNumbers, TrackerTarget, TrackerVerdict

ABOUT = "the run of the training, after it has ended; offline if the training was offline"
NEEDS = "wandb"
OPTIONS = ("run", "project", "entity")
LIVE = False

_BLOCK, _HEADER, _HEAD = 32_768, 7, 7
_RUN, _TEXTS = 17, {2: "entity", 3: "project"}
"""Numbers of fields: the run in a record, and its texts."""
_FOLDER = re.compile(r"(?P<offline>offline-)?run-\d{8}_\d{6}-(?P<id>[^/]+)")


def open_run(target: TrackerTarget, job: SentJob) -> WandbRun:
    """Return a run: that of the option `run` or WANDB_RUN_ID, else the one whose folder the job made."""
    env, options = job.environment, target.options
    root = Path(env.get("WANDB_DIR") or job.folder)
    folder = _folder(root, job.began_ns)
    match = _FOLDER.fullmatch(folder.name) if folder else None
    run = options.get("run") or env.get("WANDB_RUN_ID") or (match["id"] if match else "")
    offline = env.get("WANDB_MODE") == "offline" or bool(match and match["offline"])
    known = _recorded(folder) if folder else {}
    project = options.get("project") or known.get("project") or env.get("WANDB_PROJECT")
    entity = options.get("entity") or known.get("entity") or env.get("WANDB_ENTITY")
    return WandbRun(run, project, entity, str(root), job.name, offline=offline)


class WandbRun:
    """A run that is opened again at the end of the job."""

    def __init__(
        self, run: str, project: str | None, entity: str | None, root: str, name: str, *, offline: bool
    ) -> None:
        self._run, self._project, self._entity, self._root, self._name = run, project, entity, root, name
        self._offline = offline
        self._waiting: list[StepNumbers] = []
        self.where = f"run {run or name}" + (f" of project {project}" if project else "")
        self.where += f"; it is offline: wandb sync {root}/wandb/offline-run-*" if offline else ""

    @property
    def resume(self) -> Mapping[str, str]:
        """Nothing was sent before the end, so the end looks for the run itself."""
        return {}

    def log(self, points: Sequence[StepNumbers]) -> None:
        """Keep numbers for the end."""
        self._waiting += points

    def judge(self, found: TrackerVerdict) -> None:
        """Open the run again and add the numbers and the verdict."""
        with _refused():
            import wandb

            settings: Any = wandb.Settings(silent=True, console="off", disable_git=True, x_disable_stats=True)
            run: Any = wandb.init(
                id=self._run or None,
                name=None if self._run else self._name,
                project=self._project,
                entity=self._entity,
                dir=self._root,
                resume="allow" if self._run else None,
                mode="offline" if self._offline else None,
                settings=settings,
            )
            run.define_metric(f"{PREFIX}step", hidden=True)
            run.define_metric(f"{PREFIX}*", step_metric=f"{PREFIX}step")
            for point in self._waiting:
                run.log({f"{PREFIX}step": point.step, **_named(point.values)})
            run.summary.update(
                {
                    **_named({f"summary/{name}": value for name, value in found.numbers.items()}),
                    f"{PREFIX}verdict": found.sentence,
                    f"{PREFIX}suspect": found.suspect,
                    f"{PREFIX}link": found.link,
                }
            )
            run.finish()
            self._waiting = []

    def close(self) -> None:
        """Do nothing: the run was closed with the verdict."""


def _named(values: Mapping[str, float]) -> dict[str, float]:
    return {PREFIX + name: value for name, value in values.items()}


def _folder(root: Path, since_ns: int) -> Path | None:
    """Return the newest folder of a run that was written since then."""
    newest: tuple[int, Path] | None = None
    with contextlib.suppress(OSError):
        for entry in os.scandir(root / "wandb"):
            if entry.is_dir(follow_symlinks=False) and _FOLDER.fullmatch(entry.name):
                changed = entry.stat().st_mtime_ns
                if changed >= since_ns and (newest is None or changed > newest[0]):
                    newest = changed, Path(entry.path)
    return newest[1] if newest else None


def _recorded(folder: Path) -> dict[str, str]:
    """Return project and entity as the run's own file says; empty if its format is another one.

    After 7 bytes the file is a log of LevelDB: checksum, length, kind, and a `Record` of wandb's protocol.
    """
    found: dict[str, str] = {}
    try:
        with next(folder.glob("*.wandb")).open("rb") as file:
            data = memoryview(file.read(_BLOCK))
        at = _HEADER
        while at + _HEAD <= len(data) and not found:
            length = int.from_bytes(data[at + 4 : at + 6], "little")
            for number, value in fields(data[at + _HEAD : at + _HEAD + length]):
                if number == _RUN and isinstance(value, memoryview):
                    for inner, text in fields(value):
                        if inner in _TEXTS and isinstance(text, memoryview):
                            found[_TEXTS[inner]] = bytes(text).decode()
            at += _HEAD + length
    except (OSError, StopIteration, BadMessageError, UnicodeDecodeError):
        return {}
    return found


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Turn an error of wandb into one sentence."""
    try:
        yield
    except Exception as error:
        raise SinkError(f"W&B: {str(error).partition(chr(10))[0] or type(error).__name__}") from None
