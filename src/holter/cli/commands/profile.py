"""`holter profile JOB …`: look closer at a few steps of a running job, without a restart."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from holter.analysis.verdict.evidence import counted
from holter.cli import options
from holter.cli.commands.stop import running, tell
from holter.cli.options import Refusal
from holter.schema import windows
from holter.schema.dividing import told

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holter.store.job import JobFolder

ABOUT = """Switch a window of detailed profiling on in a running job: no restart, no change of its code.
Several profilers follow one another, for two at once would measure each other."""
EXAMPLES = """  holter profile latest --steps 5
  holter profile latest --steps 3 --operators --shapes --rank 0
  holter profile train-20260131-120000 --start-step 1000 --python cprofile
  holter profile latest --seconds 10 --python pyinstrument
  holter profile latest --off"""

STEPS = 5


def main(words: list[str]) -> int:
    """Run `holter profile`."""
    parser = options.Parser("profile", ABOUT, EXAMPLES)
    options.add_job(parser)
    options.add_store(parser)
    parser.add_argument("--steps", type=int, metavar="N", help=f"how many steps; default {STEPS}")
    parser.add_argument("--start-step", type=int, metavar="S", help="the first step; default: the next one")
    parser.add_argument("--seconds", type=float, metavar="T", help="so long, from now on, instead of steps")
    parser.add_argument(
        "--start-time", type=float, metavar="UNIX", help="with --seconds or alone: from then on, unix seconds"
    )
    parser.add_argument("--operators", action="store_true", help="operators and kernels; the default")
    parser.add_argument("--shapes", action="store_true", help="with the shapes and types of their inputs")
    parser.add_argument("--stacks", action="store_true", help="with the Python functions and modules around")
    parser.add_argument("--python", metavar="|".join(windows.PYTHON), help="functions of Python")
    parser.add_argument("--timer", metavar="|".join(windows.TIMERS), help="what cProfile measures")
    parser.add_argument("--dataloader", action="store_true", help="the workers of the data loader")
    parser.add_argument("--rank", type=int, metavar="R", help="this rank only; default: every one")
    parser.add_argument("--off", action="store_true", help="end what runs and forget what waits")
    given = parser.read(words)
    document = _document(vars(given))
    order = _checked(document)
    folder = running(options.find_job(given.job, given.store))
    _check_obeyed(folder)
    tell(folder, {"profile": {**document, "id": f"cli-{time.time_ns()}"}})
    options.say(f"job {folder.name}: {_told(order, given.rank)}")
    for line in told(order.requests):
        options.say(line)
    return 0


def variable(given: Iterable[str], asked: Sequence[windows.Request] = ()) -> str:
    """Return what `--profile-steps` tells the command's processes, and other windows that were asked for.

    Returns:
        Text for their environment; empty when there is nothing to say.

    Raises:
        Refusal: Steps that cannot be read.
    """
    try:
        chosen = [request for text in given for request in windows.order_of_words(text).requests]
    except ValueError as error:
        raise Refusal(f"--profile-steps: {error}") from None
    order = windows.ProfilingOrder((*asked, *chosen))
    for line in told(order.requests):
        options.warn(line)
    return order.to_text() if order.requests else ""


def _document(given: dict[str, Any]) -> dict[str, Any]:
    """Return what the agent is told."""
    if given["off"]:
        return {"replace": True}
    names = (
        "steps", "start_step", "seconds", "start_time", "operators", "shapes", "stacks",
        "python", "timer", "dataloader", "rank",
    )  # fmt: skip
    # Compared by identity: step 0 and rank 0 are given, though they equal False.
    found = {name: given[name] for name in names if given[name] is not None and given[name] is not False}
    if not found.keys() & {"seconds", "start_time"}:
        found.setdefault("steps", STEPS)
    if found.keys() & {"shapes", "stacks"}:
        found["operators"] = True
    return found


def _checked(document: dict[str, Any]) -> windows.ProfilingOrder:
    for name, valid in (("python", windows.PYTHON), ("timer", windows.TIMERS)):
        value = document.get(name)
        if value is not None and value not in valid:
            raise Refusal(f"--{name} {value}{options.nearest(value, valid)}; valid: {', '.join(valid)}")
    if document.get("timer") and document.get("python") != "cprofile":
        raise Refusal("--timer is for --python cprofile")
    try:
        return windows.order_of(document)
    except ValueError as error:
        raise Refusal(str(error)) from None


def _check_obeyed(folder: JobFolder) -> None:
    """Refuse where no agent would follow."""
    nodes = folder.nodes()
    if nodes and not any("profile" in (facts.get("obeys") or ()) for facts in nodes.values()):
        raise Refusal(
            f"job {folder.name}: none of its agents switches windows on, they are of an older version",
            Refusal.NOT_RUNNING,
        )


def _told(order: windows.ProfilingOrder, rank: int | None) -> str:
    if not order.requests:
        return "windows are off"
    one = order.requests[0]
    if one.duration_ns is not None:
        long = f"{one.duration_ns / 1e9:g} s"
    else:
        long = counted(one.steps or 1, "step")
    begin = "the next step" if one.start_step is None else f"step {one.start_step}"
    if one.start_ns is not None:
        begin = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.start_ns / 1e9))
    who = "" if rank is None else f" on rank {rank}"
    return f"{long} of {', then '.join(one.profiler for one in order.requests)}{who}, from {begin} on"
