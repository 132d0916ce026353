"""Run a plan: create or join the job, run its command to the end, judge the job, print the card."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING

from holter.cli import output
from holter.cli.naming import command_for
from holter.cli.run import joining, kubeflow, live_line, pushing
from holter.schema.tensor_spool import ENV_KEPT

if TYPE_CHECKING:
    from holter.agent.supervision.members import Member
    from holter.agent.supervision.outcome import Outcome
    from holter.cli.run.plan import RunPlan
    from holter.store.job import JobFolder

ISSUES_FOUND = 3


def execute(plan: RunPlan) -> int:
    """Run a plan; returns the command's own exit code, or 3 when `--fail-on` asks for it."""
    from holter.agent.supervision.hangs import HangLimits
    from holter.agent.supervision.supervise import Agent
    from holter.cli.recovery import store_rest

    folder, member = joining.begin(plan)
    creator = member is None or member.creator
    judging = joining.companions(folder, plan.rules) if plan.rules and creator else []
    silent_s = plan.options.hang_after
    shows = not plan.options.no_live and live_line.wanted()
    reports = creator and kubeflow.wanted(os.environ)
    recent = live = status = None
    if shows or reports:
        from holter.agent.drain.recent import RecentRecords

        recent, total = RecentRecords(), plan.options.total_steps
        live = live_line.LiveLine(folder, recent, _print_from_thread, total) if shows else None
        if reports:
            status = kubeflow.KubeflowStatus(recent, os.environ, _print_from_thread, total)
    agent = Agent(
        folder,
        plan.command,
        node=member.node if member else plan.node,
        interval_ms=plan.options.interval,
        companions=[*judging, *(_sending(plan, folder) if creator else [])],
        told=joining.companion_input(plan),
        variables=os.environ
        | {ENV_KEPT: folder.place.url}  # always: scripts save tensors of their own
        | {name: text for name, text in plan.variables.items() if text},
        hang=HangLimits() if silent_s is None else HangLimits(min_s=silent_s, max_s=silent_s),
        member=member,
        tell=_print_from_thread,
        recent=recent,
        pause=None if live is None else live.pause,
    )
    with live or contextlib.nullcontext(), status or contextlib.nullcontext():
        outcome = agent.run()
    outcome = store_rest(folder, outcome)
    if member is not None and not joining.judges(member, outcome):
        return outcome.exit_code
    fired = _judge(plan, folder, outcome, member)
    fails = any((name == "issue" and fired) or name in fired for name in plan.fail_on)
    return ISSUES_FOUND if fails and outcome.exit_code == 0 else outcome.exit_code


def _sending(plan: RunPlan, folder: JobFolder) -> list[list[str]]:
    """Return the commands that send numbers to other systems while the job runs."""
    return [*pushing.companion(folder, plan.options.otlp), *pushing.trackers(folder, plan.options.to)]


def _judge(plan: RunPlan, folder: JobFolder, outcome: Outcome, member: Member | None) -> set[str]:
    """Judge the job and print the card; returns the rules that found an issue. Never raises."""
    from holter.cli.run.finish import finish

    node = member.node if member else plan.node
    try:
        rules = joining.rules_at_end(plan, folder, member)
        fired = finish(folder, outcome, node, sys.stderr, rules=rules, actions=plan.actions)
        pushing.push_rest(folder, plan.options.otlp, node)
        pushing.send_rest(folder, plan.options.to, node)
        return fired
    except KeyboardInterrupt:
        output.warn(f"interrupted while judging; the record is complete: {command_for(folder)}")
    except FileNotFoundError as error:
        output.warn(f"job {folder.url} cannot be judged; the command was not touched: {error}")
    except ConnectionError as error:
        output.warn(f"{error}; {_unreached(folder, outcome)}; the command was not touched")
    except Exception as error:
        output.warn(
            "internal error while judging the job; the command was not touched: "
            f"{type(error).__name__}: {error}"
        )
    return set()


def _unreached(folder: JobFolder, outcome: Outcome) -> str:
    """Say what is lost of a job whose store cannot be reached at its end, and how the rest is read."""
    lost = f"{outcome.dropped:,} rows that were not stored yet are lost"
    rest = f"what was stored before can be read when it can be reached: {command_for(folder)}"
    return f"{lost}; {rest}" if outcome.dropped else rest


def _print_from_thread(text: str) -> None:
    """Print one line to standard error from a thread: writing to a pipe without a reader can block."""
    threading.Thread(target=_print, args=(text,), name="holter-live", daemon=True).start()


def _print(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # closed
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")  # clears the line of a progress bar, which draws itself anew
        output.warn(output.clean(text))
        sys.stderr.flush()
