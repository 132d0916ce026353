"""Start the recorder in every Python child of a recorded job, then run the user's own sitecustomize.

Any Python may find this file on its path, old ones too: it must parse and chain there as well.
"""

# mypy: ignore-errors
# Old Pythons do not parse annotations.
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [_p for _p in sys.path if not (_p and os.path.abspath(_p) == _here)]

if (
    os.environ.get("HOLTER_SPOOL")
    and os.environ.get("HOLTER_DISABLE") != "1"
    and sys.version_info >= (3, 10)
    and "holter" not in sys.modules
):
    try:
        # By path, not through sys.path: holter may live in an environment that the script must not see.
        from importlib.machinery import PathFinder as _PathFinder

        _spec = _PathFinder.find_spec("holter", [os.path.dirname(os.path.dirname(os.path.dirname(_here)))])
        _module = type(sys)("holter")
        _module.__spec__ = _spec
        _module.__file__ = _spec.origin
        _module.__loader__ = _spec.loader
        _module.__package__ = "holter"
        _module.__path__ = _spec.submodule_search_locations
        sys.modules["holter"] = _module
        _spec.loader.exec_module(_module)
        from holter.recorder import imports as _imports

        _imports.install()
    except Exception as _error:
        sys.modules.pop("holter", None)
        _reason = "{}: {}".format(type(_error).__name__, _error)  # noqa: UP032
        sys.stderr.write("holter: this process is not recorded: " + _reason + "\n")

_ours = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # noqa: F401  the next one on the path, when there is one
except ImportError as _error:
    if getattr(_error, "name", "sitecustomize") != "sitecustomize":
        raise
finally:
    if _ours is not None:
        sys.modules.setdefault("sitecustomize", _ours)
