"""`Dispatcher`: carries out orders in a thread, once for each issue and in order, and keeps the results."""

from __future__ import annotations

import contextlib
import hashlib
import json
import queue
import threading
import time
from dataclasses import asdict, astuple, dataclass
from typing import TYPE_CHECKING, Any

from holter.actions import ActionFailed, BadAction, Occasion, Secrets, TryAgain
from holter.actions._orders import ActionChoice, Order, choose
from holter.analysis.verdict.evidence import counted
from holter.schema.masking import masked_in, masked_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holter.store.documents import Document
    from holter.store.job import JobFolder

ACTED = ("ok", "failed", "dry_run")
"""The results that count for limits."""
QUEUE = 256
BACKOFF_S, LONGEST_PAUSE_S = 1.0, 60.0
_ABOUT = ("code", "node", "rank", "device", "tensor")
_TEXT = 500


@dataclass(slots=True)
class Result:
    """The result of one order for one issue."""

    result: str
    """pending, ok, failed, skipped_cooldown, skipped_limit or dry_run."""
    time: int
    """ns since the epoch."""
    text: str = ""
    tries: int = 0


class Dispatcher:
    """Takes stored issues and runs the actions of orders for them; its methods neither raise nor block.

    An order acts once for an issue: the results are part of `state`, which the caller stores with the issues.
    An action that was running when the process died is repeated: a mail may come twice, but is not lost.
    """

    def __init__(
        self,
        orders: Sequence[Order],
        folder: JobFolder,
        *,
        state: Document | None = None,
        rules: Iterable[str] | None = None,
        secrets: Secrets | None = None,
        clock: Callable[[], int] = time.time_ns,
        wait: Callable[[float], object] | None = None,
        size: int = QUEUE,
    ) -> None:
        """Start, or continue.

        Args:
            orders: The orders; without any the dispatcher does nothing.
            folder: The job.
            state: The result of `state` before a restart.
            rules: Names of the rules whose issues count; by default all rules.
            secrets: The environment; by default that of the process.
            clock: Returns the present time, ns since the epoch.
            wait: Waits the given seconds between two tries.
            size: The length of the queue; further issues are taken when they are offered again.
        """
        self._orders = {order.name: order for order in orders}
        self._folder = folder
        self._rules = None if rules is None else frozenset(rules)
        self._secrets = secrets or Secrets()
        self._clock = clock
        self._closing = threading.Event()
        self._wait = wait or self._closing.wait
        self._lock = threading.Lock()
        self._queue: queue.Queue[tuple[Order, str, Document, Mapping[str, str]] | None]
        self._queue = queue.Queue(size)
        self._thread: threading.Thread | None = None
        self._results: dict[str, dict[str, Result]] = {name: {} for name in self._orders}
        self._changed = False
        self._restore(state or {})

    @classmethod
    def of(
        cls,
        folder: JobFolder,
        actions: Sequence[ActionChoice],
        rules: Sequence[Document],
        state: Any = None,
        **more: Any,
    ) -> Dispatcher:
        """Make the dispatcher of a job.

        Args:
            folder: The job.
            actions: The actions from the command that started the job, as `documents` returns them; never
                those in a store, to which others may write.
            rules: The rules whose issues count, each with `name` and `rule`.
            state: The result of `state` before a restart.
            more: Further arguments of `__init__`.

        Raises:
            BadAction: An unknown action, option or rule.
        """
        names = [str(rule["name"]) for rule in rules]
        kept = state if isinstance(state, dict) else None
        return cls(choose(actions, rules), folder, state=kept, rules=names, **more)

    @property
    def changed(self) -> bool:
        """Whether there are results since the last call of `state`."""
        return self._changed

    def offer(self, rules: Iterable[Document]) -> None:
        """Take the stored issues, as `evaluations.json` holds them; known ones are skipped."""
        if not self._orders:
            return
        rules = list(rules)
        statuses = {str(rule["name"]): str(rule["status"]) for rule in rules}
        for rule in rules:
            if self._rules is not None and rule["name"] not in self._rules:
                continue
            for issue in rule.get("issues") or ():
                key = key_of(rule["name"], issue)
                for order in self._orders.values():
                    if order.wants(rule, issue) and not self._enqueue(order, key, issue, statuses):
                        return

    def _enqueue(self, order: Order, key: str, issue: Document, statuses: Mapping[str, str]) -> bool:
        with self._lock:
            if key in self._results[order.name]:
                return True
            if self._closing.is_set():
                return False
            try:
                self._queue.put_nowait((order, key, dict(issue), statuses))
            except queue.Full:
                return False
            self._results[order.name][key] = Result("pending", self._clock())
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="holter-actions", daemon=True)
            self._thread.start()
        return True

    def annotate(self, rules: Iterable[Document]) -> None:
        """Add `actions`, a list of name, result, time and text, to issues that have results."""
        for rule in rules if self._orders else ():
            for issue in rule.get("issues") or ():
                key = key_of(rule["name"], issue)
                with self._lock:
                    done = [
                        {"name": name, **asdict(results[key])}
                        for name, results in self._results.items()
                        if key in results
                    ]
                if done:
                    issue["actions"] = done

    def state(self) -> Document:
        """Return the results, as JSON can hold them."""
        with self._lock:
            self._changed = False
            return {
                name: {key: list(astuple(result)) for key, result in results.items()}
                for name, results in self._results.items()
                if results
            }

    def close(self, patience_s: float, *, last: bool = False) -> None:
        """Take no more issues, and wait for running actions.

        Args:
            patience_s: How long to wait.
            last: No later process continues: actions that are not done by then have failed.
        """
        thread = self._thread
        if thread is not None:
            with contextlib.suppress(queue.Full):  # then the thread ends with the process
                self._queue.put_nowait(None)
            thread.join(patience_s)
        self._closing.set()
        if not last:
            return
        with self._lock:
            for results in self._results.values():
                for key, result in results.items():
                    if result.result == "pending":
                        results[key] = Result("failed", self._clock(), "no time was left", result.tries)
                        self._changed = True

    # The thread.

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            if self._closing.is_set():
                return
            self._carry_out(*item)

    def _carry_out(self, order: Order, key: str, issue: Document, statuses: Mapping[str, str]) -> None:
        now, rule = self._clock(), str(json.loads(key)[0])
        if (why := self._limited(order, rule, now)) is not None:
            self._set_result(order, key, Result(why[0], now, why[1]))
            return
        if order.dry_run:
            values = masked_in(order.action.values())
            options = ", ".join(f"{name}={value}" for name, value in values.items() if value)
            text = f"would do: {order.action.name()}" + (f" ({options})" if options else "")
            self._set_result(order, key, Result("dry_run", now, text))
            return
        digest = hashlib.sha256(f"{self._folder.name} {order.name} {key}".encode()).hexdigest()[:24]
        occasion = Occasion(
            folder=self._folder, rule=rule, issue=issue, time=now, id=digest, statuses=statuses
        )
        for tried in range(1, order.limits.retries + 2):
            result, pause = self._try(order, occasion, tried)
            if pause is None or tried > order.limits.retries:
                break
            self._wait(max(pause, min(BACKOFF_S * 2 ** (tried - 1), LONGEST_PAUSE_S)))
            if self._closing.is_set():
                return  # it stays pending, and the next process tries again
        self._set_result(order, key, result)

    def _try(self, order: Order, occasion: Occasion, tried: int) -> tuple[Result, float | None]:
        """Act once; returns the result and, if another try may help, the least pause before it."""
        pause: float | None = None
        try:
            result, text = "ok", order.action.act(occasion, self._secrets)
        except TryAgain as error:
            result, text, pause = "failed", str(error), error.after_s or 0.0
        except (ActionFailed, BadAction) as error:
            result, text = "failed", str(error)
        except Exception as error:
            # A failed action must not stop the evaluation.
            result, text = "failed", f"{type(error).__name__}: {error}"
        return Result(result, self._clock(), masked_text(self._secrets.hide(text))[:_TEXT], tried), pause

    def _limited(self, order: Order, rule: str, now: int) -> tuple[str, str] | None:
        """Return the limit that forbids an action now, or None."""
        limits = order.limits
        with self._lock:
            acted = [(key, r.time) for key, r in self._results[order.name].items() if r.result in ACTED]
        most, pause, pause_of_rule = limits.max_per_run, limits.cooldown_s, limits.dedupe_s
        if len(acted) >= most:
            times = counted(len(acted), "time")
            return "skipped_limit", f"it acted {times} in this job, max_per_run={most}"
        since_s = (now - max((at for _, at in acted), default=-(2**62))) / 1e9
        if since_s < pause:
            return "skipped_cooldown", f"it acted {since_s:.0f} s ago, cooldown_s={pause:g}"
        same = (at for key, at in acted if json.loads(key)[0] == rule)
        since_s = (now - max(same, default=-(2**62))) / 1e9
        if since_s < pause_of_rule:
            return "skipped_cooldown", f"it reported {rule} {since_s:.0f} s ago, dedupe_s={pause_of_rule:g}"
        return None

    def _set_result(self, order: Order, key: str, result: Result) -> None:
        with self._lock:
            if self._results[order.name][key].result == "pending":
                self._results[order.name][key] = result
                self._changed = True

    def _restore(self, state: Document) -> None:
        for name, results in self._results.items():
            kept = state.get(name)
            for key, one in kept.items() if isinstance(kept, dict) else ():
                try:
                    result = Result(str(one[0]), int(one[1]), str(one[2]), int(one[3]))
                except (TypeError, ValueError, IndexError):
                    continue
                if result.result != "pending":  # an unfinished action is offered again
                    results[str(key)] = result


def key_of(rule: str, issue: Document) -> str:
    """Return the identity of an issue among those of the job."""
    return json.dumps([rule, *(issue.get(name) for name in _ABOUT)])
