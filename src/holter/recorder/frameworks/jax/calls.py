"""Records calls of compiled functions, and ends a step after each that trains."""

from __future__ import annotations

import atexit
import re
import sys
import weakref
from threading import get_ident
from typing import TYPE_CHECKING, Any

from holter.recorder.frameworks._variables import Variables
from holter.recorder.frameworks.jax import transforms
from holter.recorder.frameworks.jax.compilations import Compilations
from holter.recorder.frameworks.jax.device import DeviceWatch
from holter.recorder.frameworks.jax.outputs import ScalarOutputs
from holter.recorder.patches import Patches, hide, passed_over
from holter.recorder.spool.thread_spool import NAN
from holter.recorder.steps import TRAINERS
from holter.schema.phases import Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.jax.transforms import TracedFunction
    from holter.recorder.session import Session

OWNER = "jax"
PARTS = ("data_loading", "compute", "eval", "checkpoint")
"""The parts of a step that the hooks observe. Data loading is what the samples of the loop show."""
_EVALUATES = re.compile(r"(^|_)(eval|evaluate|evaluation|validate|validation|test)(_|$)")
"""Names of compiled functions that evaluate."""
_NEW_LEADER = 8
"""CompiledCalls in a row after which another function counts the steps."""
Outputs = tuple[list[str], list[Any]]
_COMPUTE, _EVAL = int(Phase.COMPUTE), int(Phase.EVAL)


class CompiledCalls:
    """Records outermost calls on the thread that trains.

    One function leads: its calls are the steps. It is the first that updates parameters, or the first that
    takes a gradient while none does. Another one follows if it is called often without the leader.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.jax: Any = sys.modules["jax"]
        self.breaker = session.breaker("jax")
        self.patches = Patches()
        self.compilations = Compilations(session, self.jax)
        self.device = DeviceWatch(session, self.jax)
        self.thread = 0
        """The thread that trains; 0 before the first step."""
        self._stack = transforms._local
        self._leader: Any = None
        """Key of the program that leads."""
        self._leads_by_update = False
        self._others: list[tuple[Any, int, int]] = []
        """Key, begin and end of calls of another program that trains, since the last call of the leader."""
        self._gradient = (0, 0)
        """Begin and end of the first gradient, as long as it is unknown whether an update follows."""
        self._loss: Outputs = ([], [])
        """The scalars of the last gradient that was taken outside of the function that leads."""
        self._last: Any = None
        """An output of the last step, or a weak reference to one."""
        self._evaluation = [0, 0, 0]
        """Name, begin and end of the evaluation that runs; no begin without one."""
        self._sampler: Any = None
        self.block_until_ready: Callable[[Any], object] = lambda array: array.block_until_ready()
        """Waits for an array, without a span."""

    def attach(self) -> Callable[[], None]:
        """Begin to record; return what removes every hook."""
        transforms.observer = self
        self.session.wait_for_device = self._wait
        self.compilations.attach()
        atexit.register(self.finish)
        return self._detach

    def _wait(self) -> None:
        """Wait until the device has computed the last step: a window ends with what belongs to it."""
        last = self._last() if isinstance(self._last, weakref.ref) else self._last
        try:
            if last is not None:
                self.block_until_ready(last)
        except RuntimeError:  # donated
            return

    def _detach(self) -> None:
        self.session.wait_for_device = lambda: None
        transforms.restore()
        atexit.unregister(self.finish)
        self.finish()
        self.compilations.detach()
        self.patches.undo()
        if self._sampler is not None:
            self._sampler.stop()

    def finish(self) -> None:
        """Write what waits for more calls."""
        try:
            self._end_evaluation()
            if self._gradient[0] and self._leader is None:
                self._end_step(*self._gradient)
            self.session.windows.end()  # at the end of the process JAX removes its devices next
            self.device.stop()
        except Exception as error:
            self.breaker.fault(error)

    # -- calls

    @passed_over
    def call(self, program: TracedFunction, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call the function of a program within a span."""
        session, stack, local = self.session, self._stack.stack, self.session.local
        if not self.breaker.on:
            return function(*args, **kwargs)
        pending = self.compilations.pending
        if pending.events:
            self.compilations.outside()
        code = program.code or self._code(program)
        # The first call may show that the program evaluates, and what it compiles then belongs to that.
        idle = (program.evaluates or not program.known) and self._is_idle()
        began = local.begin(code)
        stack.append(program)
        done = False
        try:
            result = function(*args, **kwargs)
            done = True
        except BaseException as error:
            session.note_failing(error, code)
            hide(error)
            raise
        finally:
            stack.pop()
            ended = local.end_of(code)
            if not done:
                pending.events.clear()
        try:
            self._called(program, began, ended, args, kwargs, result)
            trains = program.updates or program.gradients
            evaluates = program.evaluates and not trains
            # A trainer tells of its evaluations itself.
            if evaluates and session.step_owner not in TRAINERS and get_ident() == self.thread:
                self._evaluates(program, began if idle else 0, ended)
        except Exception as error:
            self.breaker.fault(error)
        return result

    def joined(self, program: TracedFunction, began: int, args: Any, kwargs: Any, result: Any) -> None:
        """Record a call during which the recording has begun."""
        try:
            spool = self.session.thread_spool()
            ended = self.compilations.now()
            spool.add(_COMPUTE, self._code(program) >> 8, began, ended - began)
            self._called(program, began, ended, args, kwargs, result)
        except Exception as error:
            self.breaker.fault(error)

    def adopt(self, program: TracedFunction) -> None:
        """Take over a program that was only lowered so far."""
        self.compilations.outside(program)

    def updated(self) -> None:
        """End a step after an update outside of any compiled function."""
        try:
            gradient, self._gradient = self._gradient, (0, 0)
            now = self.compilations.now()
            if self._leader not in (None, "update"):
                return
            if self._leader is None:
                self._lead("update", "apply_updates", by_update=True)
            self._read(([], []), gradient[0] or now, now)
            self._end_step(gradient[0] or now, now)
        except Exception as error:
            self.breaker.fault(error)

    def _code(self, program: TracedFunction) -> int:
        program.evaluates = program.evaluates or bool(_EVALUATES.search(program.name))
        program.code = self.session.name(f"dispatch {program.name}") << 8 | _COMPUTE
        return program.code

    def _called(
        self, program: TracedFunction, began: int, ended: int, args: Any, kwargs: Any, result: Any
    ) -> None:
        if self.compilations.pending.events:
            self.compilations.compiled(program, args, kwargs, began, ended)
            program.compiled()
            program.outputs = None
        if program.updates or program.gradients:
            self._trained(program, began, ended, args, kwargs, result)

    # -- steps

    def _trained(
        self, program: TracedFunction, began: int, ended: int, args: Any, kwargs: Any, result: Any
    ) -> None:
        """End a step, if the calls of this program are the steps."""
        key = program.key
        if key is not self._leader:
            if self._leader is None and not program.updates:
                # An update may follow, and is then the step.
                if not self._gradient[0]:
                    self._gradient = began, ended
                    self._loss = self._outputs(program, args, kwargs, result)
                    return
                first, self._gradient = self._gradient, (0, 0)
                self._lead(key, program.name)
                self._read(([], []), *first)
                self._end_step(*first)
            elif self._leader is None or (program.updates and not self._leads_by_update):
                began, self._gradient = self._gradient[0] or began, (0, 0)
                self._lead(key, program.name, by_update=bool(program.updates))
            elif not self._follows(key, program, began, ended):
                self._loss = self._outputs(program, args, kwargs, result)
                return
        elif self._others:
            self._others.clear()
        outputs = self._outputs(program, args, kwargs, result)
        self._last = outputs[1][0] if outputs[0] else self._smallest(program, result)
        self._read(outputs, began, ended, program.updates)
        self._end_step(began, ended, program.updates or 1)

    def _follows(self, key: Any, program: TracedFunction, began: int, ended: int) -> bool:
        """Return whether another program leads from this call on."""
        if self._leads_by_update and not program.updates:
            return False
        self._others = [one for one in self._others if one[0] is key]
        self._others.append((key, began, ended))
        if len(self._others) < _NEW_LEADER:
            return False
        *before, _ = self._others
        self._lead(key, program.name, by_update=bool(program.updates))
        for _, since, until in before:
            self._end_step(since, until, program.updates or 1)
        return True

    def _lead(self, key: Any, name: str, *, by_update: bool = False) -> None:
        """Let calls of a program with this name be the steps."""
        self._leader, self._leads_by_update = key, by_update
        self._others.clear()
        self.thread = get_ident()
        session, jax = self.session, self.jax
        if not session.sticky.get("framework") or session.step_owner == "":
            # The script has computed something, so this starts no backend.
            platform = jax.default_backend()
            device = {"gpu": "cuda"}.get(platform, platform)
            about = {"name": OWNER, "version": jax.__version__, "device": device, "parts": list(PARTS)}
            session.journal("framework", {**about, "step": name})
            _ = Variables(session, "JAX", ()).due  # says of what is asked for that nothing reads it
        self._show_loop()

    def _show_loop(self) -> None:
        """Show the loop to the sampler, which finds what runs between the calls."""
        if self._sampler is None:
            from holter.recorder.sampling.loop_samples import LoopSampler

            self._sampler = LoopSampler(self.session, self._sampled, self.jax.__path__[0])
        self._sampler.learn()

    def _sampled(self) -> int:
        """Return the thread whose code between the calls is sampled; 0 while others count the steps."""
        return self.thread if self.session.step_owner == OWNER else 0

    def _end_step(self, began: int, ended: int, steps: int = 1) -> None:
        session = self.session
        self._end_evaluation()
        if session.step_owner != OWNER and not session.claim_steps(OWNER):
            return
        if not session.since:
            session.since = began
        if steps != session.stride:
            session.step_by(steps)
        session.boundary(ended, manual=True, steps=steps)
        if self._sampler is not None and self._sampler.due:
            self._sampler.learn()

    def _outputs(self, program: TracedFunction, args: Any, kwargs: Any, result: Any) -> Outputs:
        """Return the names and the values of the scalars that a program has computed."""
        outputs = program.outputs
        if outputs is None:
            outputs = program.outputs = ScalarOutputs.of(self.jax, program, args, kwargs, result)
        return outputs.names, outputs.values(result) if outputs.names else []

    def _read(self, outputs: Outputs, began: int, ended: int, updates: int = 1) -> None:
        """Hand the scalars of a step over to the thread that reads them; else those of its gradient."""
        names, values = outputs if outputs[0] else self._loss
        self._loss = ([], [])
        if names:
            self.device.add(self.session.step + max(updates, 1) - 1, began, ended, names, values)
        elif isinstance(self._last, weakref.ref) and (array := self._last()) is not None:
            self.device.add_state(began, ended, array)

    # -- evaluations

    def _smallest(self, program: TracedFunction, result: Any) -> Any:
        """Return a weak reference to an output, which is state: it must not live longer than without us."""
        at = program.outputs.smallest
        return weakref.ref(self.jax.tree_util.tree_leaves(result)[at]) if at >= 0 else None

    def _is_idle(self) -> bool:
        """Whether the device has computed the last step. If that is unknown, it is not."""
        last = self._last() if isinstance(self._last, weakref.ref) else self._last
        try:
            return last is not None and bool(last.is_ready())
        except RuntimeError:  # donated
            return False

    def _evaluates(self, program: TracedFunction, began: int, ended: int) -> None:
        """Count a call to an evaluation, from when the device no longer computes steps of the training."""
        evaluation = self._evaluation
        if not evaluation[1]:
            if not began and not self._is_idle():
                return
            evaluation[0], evaluation[1] = self.session.name(program.name), began or ended
        evaluation[2] = ended

    def waited(self, ended: int) -> None:
        """Count a wait for the device to the evaluation that runs."""
        if self._evaluation[1]:
            self._evaluation[2] = ended

    def _end_evaluation(self) -> None:
        name, began, ended = self._evaluation
        if began:
            self._evaluation[1] = 0
        if ended > began > 0:
            spool = self.session.thread_spool()
            spool.add(_EVAL, name, began, ended - began, NAN, None, int(Mode.EVAL))
