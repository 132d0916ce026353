"""Collects a window with the profiler of JAX or TensorFlow: operators of the compiled program, and kernels.

Both libraries have the profiler of OpenXLA, with traces in the format XPlane. That of JAX returns bytes;
`jax.profiler.stop_trace` would also convert it to JSON. That of TensorFlow writes it into a folder.
"""

from __future__ import annotations

import glob
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from holter.recorder.patches import Patches
from holter.recorder.profilers import ProfilerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from holter.recorder.profilers import Found
    from holter.recorder.profiling_window import ProfilingWindow, WindowSession

FORMAT = "xplane"
"""The format of the file, by which the agent chooses what reads it."""
_HOST_LEVEL = 2
"""What the profiler records of the host by default: its important and its informative events."""
_UNTOLD = ("shapes", "stacks")
"""What a window of PyTorch can tell besides. The tracer of Python functions would record the recorder."""


class TraceProfiler:
    """One window of the profiler of OpenXLA."""

    def __init__(self, session: WindowSession, window: ProfilingWindow) -> None:
        self._session, self._window = session, window
        self._library, self._device = "", "cpu"
        self._profile: Any = None
        self._trace = b""
        self._lost = ""
        self._patches = Patches()

    def start(self) -> None:
        """Begin to collect. Raises `ProfilerUnavailable`."""
        name = _library_of(self._session)
        if name is None:
            raise ProfilerUnavailable("neither JAX nor TensorFlow is loaded")
        self._library, begin = _BEGINS[name]
        module, self._profile, self._device = begin()
        # A second trace of the same library would be empty: that of the script has priority.
        self._patches.wrap(module, "ProfilerSession", self._giving_way)

    def stop(self) -> Found | Callable[[], Found]:
        """End; return the function that writes the trace."""
        if not self._lost:
            self._session.wait_for_device()
            self._end()
        if self._lost:
            return {"refused": self._lost}
        return self._keep

    def _end(self) -> None:
        profile, self._profile = self._profile, None
        self._patches.undo()
        self._trace = profile.stop()

    def _giving_way(self, original: Any) -> Callable[..., Any]:
        def begin(*args: Any, **options: Any) -> Any:
            self._lost = "the script started a profiler of its own"
            self._session.windows.cut_short()
            try:
                self._end()
            except Exception as error:
                self._session.fault("profiler xplane", error)
            self._trace = b""
            return original(*args, **options)

        return begin

    def _keep(self) -> Found:
        """Write the trace into a file, in the background."""
        if not self._trace:
            return {"refused": f"the profiler of {self._library} returned an empty trace"}
        name = f"{self._session.process}.{self._window.number}.{FORMAT}"
        path = self._session.spool.path(name)
        try:
            with open(path, "wb") as file:
                file.write(self._trace)
        except BaseException:
            if os.path.exists(path):
                os.unlink(path)
            raise
        found: dict[str, object] = {
            "file": name,
            "format": FORMAT,
            "library": self._library,
            "device": self._device,
        }
        if asked := [word for word in _UNTOLD if self._window.parameters.get(word)]:
            found["missing"] = f"the profiler of {self._library} tells no {' and no '.join(asked)}"
        return found

    def forget(self) -> None:
        """Free the trace."""
        self._trace = b""


def collects(session: WindowSession) -> bool:
    """Whether this profiler collects the operators of a process."""
    if _framework(session) not in _OWNERS and "torch" in sys.modules:
        return False
    return _library_of(session) is not None


def _framework(session: WindowSession) -> str:
    """Return who counts the steps: the script, a trainer, or the framework whose loop it is."""
    told = session.sticky.get("framework") or {}
    return session.step_owner or str(told.get("name", ""))


def _library_of(session: WindowSession) -> str | None:
    """Return the library whose program trains; None for PyTorch, and without a library."""
    owner = _framework(session)
    name = _OWNERS.get(owner, "")
    if owner == "keras":
        name = getattr(sys.modules.get("keras.src.backend.config"), "backend", lambda: "")()
    elif not name:  # the script counts its steps: JAX and TensorFlow may both be loaded, one for its data
        bridge = sys.modules.get("jax._src.xla_bridge")
        computes = getattr(bridge, "backends_are_initialized", lambda: False)()
        name = "jax" if computes else "tensorflow"
    return name if name in _BEGINS and name in sys.modules else None


def _begin_jax() -> tuple[ModuleType, Any, str]:
    jax: Any = sys.modules["jax"]
    profiler: Any = sys.modules.get("jax._src.profiler")
    module = getattr(profiler, "_profiler", None)
    if not hasattr(module, "ProfilerSession") or not hasattr(jax.profiler, "ProfileOptions"):
        raise ProfilerUnavailable(f"the profiler of JAX {jax.__version__} is not known; JAX 0.10 is")
    if profiler._profile_state.profile_session is not None:
        raise ProfilerUnavailable("the script runs a profiler of its own")
    options = jax.profiler.ProfileOptions()
    options.host_tracer_level, options.python_tracer_level = _HOST_LEVEL, 0
    options.enable_hlo_proto = False  # the program's text, which is not read
    options.raise_error_on_start_failure = True
    device = jax.default_backend()
    return module, _JaxTrace(module.ProfilerSession(options)), {"gpu": "cuda"}.get(device, device)


def _begin_tensorflow() -> tuple[ModuleType, Any, str]:
    tensorflow: Any = sys.modules["tensorflow"]
    profiler: Any = sys.modules.get("tensorflow.python.profiler.profiler_v2")
    module = getattr(profiler, "_pywrap_profiler", None)
    if not hasattr(module, "ProfilerSession"):
        raise ProfilerUnavailable(
            f"the profiler of TensorFlow {tensorflow.__version__} is not known; that of TensorFlow 2.21 is"
        )
    if profiler._profiler is not None:
        raise ProfilerUnavailable("the script runs a profiler of its own")
    options = {"host_tracer_level": _HOST_LEVEL, "python_tracer_level": 0, "device_tracer_level": 1}
    on_gpu = tensorflow.config.list_logical_devices("GPU")
    return module, _TensorFlowTrace(module.ProfilerSession(), options), "cuda" if on_gpu else "cpu"


class _JaxTrace:
    """A trace of JAX that is being recorded."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def stop(self) -> bytes:
        """End it, and return it in the format XPlane."""
        return bytes(self._session.stop())


class _TensorFlowTrace:
    """A trace of TensorFlow that is being recorded, and the folder in which it will be."""

    def __init__(self, session: Any, options: dict[str, int]) -> None:
        self._session = session
        self._folder = tempfile.TemporaryDirectory(prefix="holter-window-")
        try:
            session.start(self._folder.name, options)
        except BaseException:
            self._folder.cleanup()
            raise

    def stop(self) -> bytes:
        """End it, and return it in the format XPlane; no bytes if TensorFlow has written none."""
        with self._folder as folder:
            self._session.export_to_tb()
            pattern = os.path.join(glob.escape(folder), "**", "*.xplane.pb")
            traces = []
            for path in sorted(glob.glob(pattern, recursive=True)):
                with open(path, "rb") as file:
                    traces.append(file.read())
        return b"".join(traces)  # messages of this format in a row are one


_OWNERS = {"jax": "jax", "tensorflow": "tensorflow", "keras": ""}
"""Owners of steps whose programs OpenXLA or TensorFlow runs, unless Keras computes with PyTorch."""
_BEGINS: dict[str, tuple[str, Callable[..., tuple[ModuleType, Any, str]]]] = {
    "jax": ("JAX", _begin_jax),
    "tensorflow": ("TensorFlow", _begin_tensorflow),
}
PROFILER = TraceProfiler
