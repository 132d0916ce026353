"""`holter run [options] -- CMD…`: check everything, start CMD under recorder and agent, end with the card."""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holter.cli import live, options, orders, pushing, python_hz, saving
from holter.cli.commands import profile
from holter.cli.options import Refusal
from holter.schema.metrics import DEFAULT_INTERVAL_MS
from holter.schema.tensor_spool import ENV_KEPT, ENV_SAVE
from holter.schema.windows import ENV_PROFILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holter.agent.supervision.launch import Launch
    from holter.agent.supervision.members import Member
    from holter.agent.supervision.supervise import Outcome
    from holter.store.job import JobFolder

ABOUT = """Run CMD under holter: its output, signals and exit code stay as they are, a verdict follows.
CMD is whatever starts the training: python, torchrun, accelerate, mpirun, a shell script."""

EXAMPLES = """  holter run -- python train.py --epochs 3
  holter run --job base --interval 1s -- torchrun --nproc-per-node 2 train.py
  holter run --rule LowGPUUtilization:threshold=80 --fail-on issue -- ./train.sh
  holter run --save gradients@100 --save weights@50:histogram -- python train.py
  holter run --config holter.toml -- python train.py"""

ISSUES_FOUND = 3

_WINNING = (
    "store", "job", "interval", "node", "hang-after", "fail-on", "no-rules", "join", "otlp", "price",
    "python-hz", "steps",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Everything a run needs, checked."""

    store: str
    command: list[str]
    name: str
    named: bool
    """Whether the user chose the name; a made-up one gets a number when it is taken."""
    interval_ms: int
    node: str
    rules: list[dict[str, Any]] = field(default_factory=list)
    actions: list[dict[str, Any]] = field(default_factory=list)
    fail_on: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    """What of the tensors is saved and which steps are profiled, as the command finds it."""
    launch: Launch | None = None
    """What this node has in common with others that record the same job; None when it is the only one."""
    node_named: bool = False
    """Whether the user chose the node's name; a made-up one gets a number when it is taken."""
    hang_s: float | None = None
    """Silence that counts as a hang; None: it depends on the job's own steps."""
    otlp: str | None = None
    """Where metrics are pushed to; empty: where the environment says."""
    price: float | None = None
    """What one machine costs an hour."""
    steps: int | None = None
    """How many steps the training will take."""


def parser() -> options.Parser:
    """Return the parser of `holter run`; the config file has the same names."""
    made = options.Parser("run", ABOUT, EXAMPLES, usage="holter run [options] -- CMD ...")
    options.add_store(made)
    made.add_argument("--job", metavar="NAME", help="the job's name; default: the script's name and the time")
    made.add_argument(
        "--config",
        metavar="FILE",
        help="options and rules from a TOML file, or SageMaker's profilerconfig.json or hook configuration; "
        "the command line wins",
    )
    made.add_argument(
        "--rule",
        metavar="NAME[:k=v,...]",
        action="append",
        default=None,
        help="judge by this rule too, or set parameters of one that is on; also pack:NAME, "
        "FILE.py:NAME, 'when:loss > 100'; may be repeated (see `holter rules list`)",
    )
    made.add_argument(
        "--no-rules", action="store_true", default=None, help="judge by no rule but those of --rule"
    )
    made.add_argument(
        "--action",
        metavar="NAME[:k=v,...]",
        action="append",
        default=None,
        help="do this when a rule finds something: stop_training, email, sms, webhook, run_command, ...; "
        "bind it with on=RULE and severity=critical; may be repeated",
    )
    made.add_argument(
        "--interval",
        metavar="TIME",
        help="how often the machine is sampled: 100ms, 200ms, 500ms (default), 1s, 5s or 1min",
    )
    made.add_argument(
        "--fail-on",
        metavar="issue|RULE",
        action="append",
        default=None,
        help="exit with 3 when CMD succeeds but a rule (or this rule) found an issue",
    )
    made.add_argument(
        "--hang-after",
        metavar="SECONDS",
        help="how long a rank may be silent before it counts as hanging; default: by its own steps, from 120",
    )
    made.add_argument(
        "--save",
        metavar="COLLECTION[@N][:OPTION,...]",
        action="append",
        default=None,
        help="save tensors every N steps: gradients@100, weights@50:histogram, /regex/@10:raw, role=loss",
    )
    made.add_argument(
        "--profile-steps",
        metavar="FIRST:LAST[:WHAT,...]",
        action="append",
        default=None,
        help="look closer at these steps: operators by default; shapes, stacks, cprofile, pyinstrument, "
        "dataloader, timer=NAME (of cprofile), rank=N; may be repeated",
    )
    python_hz.add(made)
    pushing.add_option(made)
    options.add_price(made)
    made.add_argument("--steps", metavar="N", help="how many steps it will take, to say when it is done")
    made.add_argument("--node", metavar="NAME", help="what to call this machine; default: its host name")
    made.add_argument(
        "--join",
        action="store_true",
        default=None,
        help="one of several nodes that record one job; not needed with srun, nor with torchrun --nnodes N",
    )
    made.add_argument("command", metavar="CMD", nargs=argparse.REMAINDER, help="what to run, after --")
    return made


def main(words: list[str]) -> int:
    """Run `holter run`; returns CMD's own exit code, or 3 when `--fail-on` says so."""
    return execute(plan(words))


def plan(words: Sequence[str]) -> Plan:
    """Read and check the command line; raises `Refusal` before anything is started or written."""
    split = list(words).index("--") if "--" in words else None
    ours = list(words) if split is None else list(words[:split])
    given = parser().read(ours)
    if split is not None and given.command:
        raise Refusal(f"unexpected argument {given.command[0]!r} before --; see `holter run --help`")
    command = given.command if split is None else list(words[split + 1 :])
    settings = _settings(given)
    _check_command(command)
    interval = options.interval_ms(settings["interval"]) if settings.get("interval") else DEFAULT_INTERVAL_MS
    rules, fail_on = _rules(settings)
    name = settings.get("job")
    from holter.agent.supervision.launch import Launch, launch
    from holter.cli.naming import default_name, node
    from holter.store.job import check_name, store_url

    launched = Launch(f"join {name}", None) if settings.get("join") else launch(command, os.environ)
    if settings.get("join") and not name:
        raise Refusal("--join needs --job NAME: which job the nodes record together")
    if name:
        try:
            check_name(name)
        except ValueError as error:
            raise Refusal(str(error)) from None
    return Plan(
        store=store_url(settings.get("store")),
        command=command,
        name=name or default_name(command, time.localtime(), launched.label if launched else ""),
        named=bool(name),
        interval_ms=interval,
        node=node(settings.get("node")),
        node_named=bool(settings.get("node")),
        launch=launched,
        rules=rules,
        actions=orders.chosen(settings, rules),
        fail_on=fail_on,
        variables={
            ENV_SAVE: saving.variable(settings["save"]),
            ENV_PROFILE: profile.variable(settings["profile-steps"], settings.get("windows", ())),
            **python_hz.variables(settings.get("python-hz")),
        },
        hang_s=options.hang_s(settings.get("hang-after")),
        otlp=pushing.endpoint(settings.get("otlp")),
        price=options.price(settings.get("price")),
        steps=options.steps(settings.get("steps")),
    )


def execute(plan: Plan) -> int:
    """Create the job, run its command to its end, judge it, print the card."""
    from holter.agent.supervision.hangs import HangLimits
    from holter.agent.supervision.supervise import Agent
    from holter.cli.commands.recover import kept
    from holter.cli.joining import begin, companions, judged_here, told

    folder, member = begin(plan)
    creator = member is None or member.creator
    judging = companions(folder, plan.rules) if plan.rules and creator else []
    outcome = Agent(
        folder,
        plan.command,
        node=member.node if member else plan.node,
        interval_ms=plan.interval_ms,
        companions=[*judging, *(pushing.companion(folder, plan.otlp) if creator else [])],
        told=told(plan),
        variables=os.environ
        | {ENV_KEPT: folder.place.url}  # whether anything is asked for or not: scripts save of their own
        | {k: text for k, text in plan.variables.items() if text},
        hang=HangLimits() if plan.hang_s is None else HangLimits(min_s=plan.hang_s, max_s=plan.hang_s),
        member=member,
        tell=live.say,
    ).run()
    outcome = kept(folder, outcome)
    if member is not None and not judged_here(member, outcome):
        return outcome.exit_code
    fired = _finish(plan, folder, outcome, member)
    wanted = any((name == "issue" and fired) or name in fired for name in plan.fail_on)
    return ISSUES_FOUND if wanted and outcome.exit_code == 0 else outcome.exit_code


def _finish(plan: Plan, folder: JobFolder, outcome: Outcome, member: Member | None) -> set[str]:
    """Judge what was recorded and print the card; returns the rules that found an issue. Never raises."""
    from holter.cli import joining
    from holter.cli.finish import finish

    node = member.node if member else plan.node
    try:
        by = {"rules": joining.rules_at_end(plan, folder, member), "actions": plan.actions}
        fired = finish(folder, outcome, node, options.look(folder), sys.stderr, **by)
        pushing.push_rest(folder, plan.otlp, node)
        return fired
    except KeyboardInterrupt:
        options.warn(f"interrupted while judging; what was recorded is complete: {options.look(folder)}")
    except FileNotFoundError as error:
        options.warn(f"job {folder.url} cannot be judged, the command was not touched: {error}")
    except ConnectionError as error:
        lost = f"{outcome.dropped} rows that came after it are lost; the command was not touched"
        options.warn(f"{error}; what was recorded before is there, {lost}")
    except Exception as error:
        options.warn(
            f"own fault while judging the job, the command was not touched: {type(error).__name__}: {error}"
        )
    return set()


def _settings(given: argparse.Namespace) -> dict[str, Any]:
    """Join the config file and the command line, which wins."""
    from holter.cli.config import from_environment, read_config

    settings = read_config(given.config, parser()) if given.config else from_environment()
    for name in _WINNING:
        value = getattr(given, name.replace("-", "_"))
        if value is not None:
            settings[name] = value
    for name in ("rule", "action", "save", "profile-steps"):
        settings[name] = [*settings.get(name, []), *(getattr(given, name.replace("-", "_")) or [])]
    return settings


def _check_command(command: Sequence[str]) -> None:
    from holter.agent.supervision.command import CommandNotFound, find_command

    if not command:
        raise Refusal("nothing to run; write the command after --: holter run -- python train.py")
    try:
        find_command(list(command))
    except CommandNotFound as error:
        raise Refusal(str(error)) from None


def _rules(settings: dict[str, Any]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the rules, checked, and the full names of those that make a clean exit a failure."""
    from holter.cli.commands.rules import chosen, named

    rules = chosen(settings.get("rule", ()), settings.get("rules", {}), defaults=not settings.get("no-rules"))
    running = [rule["name"] for rule in rules]
    fail_on = []
    for wanted in settings.get("fail-on") or ():
        name = wanted if wanted in ("issue", *running) else named(wanted)
        if name == "issue" and not rules:
            raise Refusal("--fail-on issue needs a rule, but there is none (--no-rules)")
        if name != "issue" and name not in running:
            raise Refusal(f"--fail-on {name}: this rule is off; running: {', '.join(running) or 'none'}")
        fail_on.append(name)
    return rules, tuple(fail_on)
