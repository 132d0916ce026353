"""`holter profile JOB`: profile a few steps of a running job, without a restart."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holter.analysis.verdict.evidence import counted
from holter.cli import options, output
from holter.cli.job_lookup import check_obeyed, running_job, send_order
from holter.cli.options import Refusal, Refusing
from holter.schema import windows
from holter.schema.dividing import notices

if TYPE_CHECKING:
    from holter.store.documents import Document

ABOUT = """Profile a few steps of a running job in detail: no restart, no change of its code.
Several profilers run one after the other, because two at once would measure each other."""
EXAMPLES = """  holter profile latest --count 5
  holter profile latest --count 3 --operators --shapes --rank 0
  holter profile train-20260131-120000 --steps 1000:1005 --python cprofile
  holter profile latest --seconds 10 --python pyinstrument
  holter profile latest --off"""

STEPS = 5


def main(words: list[str]) -> int:
    """Run `holter profile`."""
    parser = options.Parser("profile", ABOUT, EXAMPLES, "job", "--store", "--json")
    parser.add_argument(
        "--count",
        type=options.within(int),
        metavar="N",
        help=f"profile the next N steps; default: {STEPS}",
    )
    parser.add_argument("--steps", metavar="A:B", help="profile the steps from A to B, without B")
    parser.add_argument(
        "--seconds",
        type=options.within(float, unit="of seconds"),
        metavar="T",
        help="profile for T seconds instead of steps",
    )
    parser.add_argument(
        "--start-time",
        type=options.within(float),
        metavar="UNIX",
        help="begin at this time, in Unix seconds",
    )
    parser.add_argument("--operators", action="store_true", help="record operators and kernels (default)")
    parser.add_argument("--shapes", action="store_true", help="with shapes and types of their inputs")
    parser.add_argument("--stacks", action="store_true", help="with the Python stack of each operator")
    parser.add_argument("--python", metavar="|".join(windows.PYTHON), help="profile Python functions")
    parser.add_argument("--timer", metavar="|".join(windows.TIMERS), help="the clock of cProfile")
    parser.add_argument("--dataloader", action="store_true", help="record the workers of the data loader")
    parser.add_argument(
        "--rank", type=options.within(int), metavar="R", help="this rank only; default: all ranks"
    )
    parser.add_argument("--off", action="store_true", help="end the running window and drop later ones")
    given = parser.read(words)
    document = _document(vars(given))
    order = _checked(document)
    folder = running_job(given.job, given.store)
    check_obeyed(folder, "profile")
    send_order(folder, {"profile": {**document, "id": f"cli-{time.time_ns()}"}})
    lines = [_sentence(order, given.rank), *notices(order.requests)]
    if given.json:
        output.write_json({"schema": 1, "job": folder.name, "profile": document, "notices": lines[1:]})
    else:
        output.say(f"job {folder.name}: {lines[0]}")
        for line in lines[1:]:
            output.say(line)
    return 0


def _document(given: Document) -> Document:
    """Return the order for the agents."""
    if given["off"]:
        return {"replace": True}
    names = (
        "seconds", "start_time", "operators", "shapes", "stacks", "python", "timer", "dataloader", "rank",
    )  # fmt: skip
    # Compared by identity: rank 0 is given, though it equals False.
    found = {name: given[name] for name in names if given[name] is not None and given[name] is not False}
    found |= _which_steps(given["count"], given["steps"])
    if not found.keys() & {"steps", "seconds", "start_time"}:
        found["steps"] = STEPS
    if found.keys() & {"shapes", "stacks"}:
        found["operators"] = True
    return found


def _which_steps(count: int | None, steps: str | None) -> Document:
    """Return the number of steps and the first one, as far as they are given."""
    if steps is None:
        return {} if count is None else {"steps": count}
    if count is not None:
        raise Refusal("--count and --steps both say how many steps; give one of them")
    if steps.isdecimal():
        raise Refusal(
            f"--steps {steps} is not a range, as in 100:105; --count {steps} profiles the next steps"
        )
    first, end = options.range_of("--steps", steps, int)
    if first is None or end is None:
        raise Refusal(f"--steps {steps!r} has no begin or no end; valid: A:B, as in 100:105")
    if end <= first:
        raise Refusal(f"--steps {steps} ends before it begins")
    return {"start_step": first, "steps": end - first}


def _checked(document: Document) -> windows.ProfilingOrder:
    for name, valid in (("python", windows.PYTHON), ("timer", windows.TIMERS)):
        value = document.get(name)
        if value is not None:
            options.check_choice(f"--{name}", value, valid)
    if document.get("timer") and document.get("python") != "cprofile":
        raise Refusal("--timer is for --python cprofile")
    with Refusing(ValueError):
        return windows.order_of(document)


def _sentence(order: windows.ProfilingOrder, rank: int | None) -> str:
    if not order.requests:
        return "profiling is off"
    one = order.requests[0]
    if one.duration_ns is not None:
        long = f"{one.duration_ns / 1e9:g} s"
    else:
        long = counted(one.steps or 1, "step")
    begin = "the next step" if one.start_step is None else f"step {one.start_step}"
    if one.start_ns is not None:
        begin = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.start_ns / 1e9))
    where = "" if rank is None else f" on rank {rank}"
    return f"{long} of {', then '.join(one.profiler for one in order.requests)}{where}, from {begin} on"
