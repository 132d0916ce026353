"""Attaches to a framework when the training script imports it, or at once if it did already.

Loaded at the start of every Python child of a recorded job, so it imports nothing that is not loaded
anyway; the rest of the recorder is loaded only in processes that import a framework.
"""

from __future__ import annotations

import atexit
import os
import sys

from holter.recorder import PID, STARTED_NS, program_samples
from holter.recorder.unsupported import has_backend, not_recorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from holter.recorder.session import Session

TRIGGERS = {
    "torch": "pytorch",
    "tensorflow": "tensorflow",
    "keras": "keras",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
    "sklearn.base": "scikit_learn",
    "jax": "jax",
    "transformers.trainer": "transformers",
    "torchtitan.trainer": "torchtitan",
    "lightning.pytorch": "lightning",
    "pytorch_lightning": "lightning",
    "deepspeed": "deepspeed",
    "lightning.fabric": "fabric",
    "lightning_fabric": "fabric",
    "ray._private.worker": "ray.cluster",
    "ray.train.v2._internal.execution.context": "ray.training",
    "ray.tune.trainable.trainable": "ray.trials",
    "ray.data._internal.block_batching.iter_batches": "ray.data",
    "ray.data._internal.iterator.stream_split_iterator": "ray.data",
}
"""Module of a framework → file of `frameworks/` that knows it."""
RANGES = ("torch.cuda.nvtx", "nvtx.nvtx")
"""Modules with functions that mark ranges; see `nvtx_ranges`."""
_WAIT = frozenset(
    (
        "torch",
        "xgboost",
        "lightgbm",
        "catboost",
        "sklearn.base",
        "jax",
        "tensorflow",
        "keras",
        *(one for one in TRIGGERS if one.startswith("ray.")),
    )
)
"""Modules whose adapters wait for the first use; see `first_use`."""
_COMPUTES = ("torch", "tensorflow", "jax", "xgboost", "lightgbm", "catboost")
"""Modules of frameworks that are named in a job which failed before it used one; the first of them."""
_ON_TORCH = frozenset(
    (
        "transformers.trainer",
        "torchtitan.trainer",
        "lightning.pytorch",
        "pytorch_lightning",
        "deepspeed",
        "lightning.fabric",
        "lightning_fabric",
    )
)
"""Modules whose adapters add to that of PyTorch, which they need at once."""


class ImportWatch:
    """A finder that finds nothing itself: it lets the others find, and calls back after execution."""

    def __init__(self, wanted: dict[str, Callable[[str], object]]) -> None:
        self.wanted = wanted
        self.executing: set[str] = set()
        """The wanted modules whose code runs."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec the other finders give, set to call back once the module was executed."""
        if fullname not in self.wanted:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                self._prime(spec)
                return spec
        return None

    def _prime(self, spec: ModuleSpec) -> None:
        loader = spec.loader
        if loader is None or not hasattr(loader, "exec_module"):
            return
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            self.executing.add(spec.name)
            try:
                execute(module)
            finally:
                self.executing.discard(spec.name)
            vars(loader).pop("exec_module", None)
            called = self.wanted.pop(spec.name, None)
            if called is not None:
                called(spec.name)

        _pass_for_python(exec_module)
        try:
            # On the loader object itself, so that its type stays what others expect of it.
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except (AttributeError, TypeError):
            return


def _pass_for_python(ours: Callable[..., object]) -> None:
    """Let tracebacks and warnings leave out the frames of a function, as those of Python's import system."""
    ours.__code__ = ours.__code__.replace(
        co_filename="<frozen importlib._bootstrap>", co_name="_call_with_frames_removed"
    )


_pass_for_python(ImportWatch.find_spec)
_watch: ImportWatch | None = None


def install() -> None:
    """Watch for frameworks from now on; those already imported are attached to at once. Idempotent."""
    global _watch
    if _watch is None:
        _watch = ImportWatch({})
        atexit.register(_at_exit)
        _sample_program()
    for module in TRIGGERS:
        if getattr(getattr(sys.modules.get(module), "__spec__", None), "_initializing", False):
            continue  # being imported right now, further up this stack: our caller comes from inside it
        if module in sys.modules:
            # Of torch, models and loaders may exist already, whose use begins with any function.
            attach(module, wait=module != "torch")
        else:
            _watch.wanted[module] = attach
    for module in RANGES:
        when_imported(module, _hear)
    if _watch not in sys.meta_path:
        sys.meta_path.insert(0, _watch)


def uninstall() -> None:
    """Watch no more."""
    program_samples.stop()
    if "holter.recorder.nvtx_ranges" in sys.modules:
        sys.modules["holter.recorder.nvtx_ranges"].stop()
    if "holter.recorder.first_use" in sys.modules:
        sys.modules["holter.recorder.first_use"].stop()
    if _watch is not None:
        _watch.wanted.clear()
        if _watch in sys.meta_path:
            sys.meta_path.remove(_watch)


def when_imported(module: str, call: Callable[[str], object]) -> None:
    """Call `call(module)` once `module` was executed, or now when it already was; `call` must not raise."""
    if module in sys.modules and not (_watch is not None and module in _watch.executing):
        call(module)
    elif _watch is not None:
        _watch.wanted[module] = call


def attach(module: str, *, wait: bool = True) -> None:
    """Attach the adapter of framework `module`, or wait for the first use of the framework.

    A fault costs the recording, never the import.
    """
    if not has_backend(module):
        return  # nothing of it is recorded, so nothing is loaded for it
    try:
        if module in _ON_TORCH:
            use("torch")
        if wait and module in _WAIT:
            from holter.recorder import first_use

            first_use.wait(module, lambda: _attach(module), when_imported)
        elif not use(module):
            _attach(module)
    except Exception as error:
        _note_unattached(module, error)


def use(module: str) -> bool:
    """Attach an adapter that waits for the first use of its framework; return False if it does not."""
    first_use = sys.modules.get("holter.recorder.first_use")
    return first_use is not None and first_use.wait_no_longer(module)


def _attach(module: str) -> None:
    try:
        from holter.recorder import session

        current = session.activate()
        if current is not None:
            current.attach(TRIGGERS[module])
    except Exception as error:
        _note_unattached(module, error)


def _note_unattached(module: str, error: Exception) -> None:
    """Say on stderr and in the job why a framework is not recorded."""
    sys.stderr.write(f"holter: {module} is not recorded: {type(error).__name__}: {error}\n")
    try:
        from holter.recorder import session

        current = session.activate()
        if current is not None:
            current.note_unattached(TRIGGERS[module], error)
    except Exception as fault:
        sys.stderr.write(f"holter: the job does not say so: {type(fault).__name__}: {fault}\n")


def _hear(module: str) -> None:
    """Record ranges that are marked for NVTX; the recorder loads with the first one."""
    try:
        from holter.recorder import nvtx_ranges

        nvtx_ranges.watch(sys.modules[module])
    except Exception as error:
        sys.stderr.write(f"holter: ranges of {module} are not recorded: {type(error).__name__}: {error}\n")


def _sample_program() -> None:
    """Sample the process until an adapter records it; what it computes is unknown otherwise."""
    directory = os.environ.get("HOLTER_SPOOL")
    if directory and os.environ.get("HOLTER_DISABLE") != "1" and os.environ.get("HOLTER_LOOK") != "never":
        program_samples.start(directory)


def _at_exit() -> None:
    """Note what ended a process that never trained, and what it imported; a session has done so already."""
    program_samples.stop()
    last = getattr(sys, "last_value", None)
    # After Ctrl-C the interpreter ends itself with SIGINT, unless code is compiled from text until then.
    if isinstance(last, KeyboardInterrupt) or hasattr(sys, "ps1"):
        return
    try:
        if last is not None:
            from holter.recorder import failure, session

            current = session.activate()
            if current is not None:
                failure.note_last(current)
                _name_unused(current)
        elif "holter.recorder.session" not in sys.modules and (found := not_recorded()):
            _journal_alone({"imported": found})
    except Exception as error:
        sys.stderr.write(f"holter: the end was not noted: {type(error).__name__}: {error}\n")


def _name_unused(current: Session) -> None:
    """Name a framework that a failed process has imported and not used, if nothing else was recorded."""
    first_use = sys.modules.get("holter.recorder.first_use")
    if first_use is None or current.sticky.get("framework"):
        return
    for module in _COMPUTES:
        if first_use.waits(module):
            version = vars(sys.modules[module]).get("__version__")
            fact = {"name": TRIGGERS[module], "version": version and str(version), "used": False}
            current.journal("framework", fact)
            return


def _journal_alone(fact: dict[str, object]) -> None:
    """Write the journal of a process that has no session; loading one would take its exit 30 ms."""
    import json

    from holter.schema.record import ENV_DISABLE, ENV_SPOOL, journal_name

    directory = os.environ.get(ENV_SPOOL)
    if directory and os.environ.get(ENV_DISABLE) != "1" and os.getpid() == PID:
        lines = json.dumps({"process": {"pid": PID, "role": "other"}}) + "\n" + json.dumps(fact, default=str)
        with open(
            os.path.join(directory, journal_name(f"{PID}-{STARTED_NS}")), "x", encoding="utf-8"
        ) as file:
            file.write(lines + "\n")
