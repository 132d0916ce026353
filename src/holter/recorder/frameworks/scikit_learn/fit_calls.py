"""Wraps `fit` and `partial_fit` of all estimators of scikit-learn when their classes are defined.

The wrappers call the original and nothing else, unless somebody records them. Loaded with scikit-learn, which
many scripts import without a fit, so it imports nothing that takes time.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from holter.recorder.patches import PASSED_OVER, hide, passed_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from holter.recorder.patches import Patches

    Recorder = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]

CANDIDATE = "_fit_and_score"
"""Function that fits and scores a candidate of a search, or in a fold of a cross-validation."""
_METHODS = ("fit", "partial_fit")
_VALIDATION, _SEARCH = "sklearn.model_selection._validation", "sklearn.model_selection._search"
recorder: Recorder | None = None
"""Gets the original function, the estimator and the arguments of each call, and calls the function once."""
_before_first: Callable[[], None] | None = None
"""Called before the first fit, which it may let `recorder` record."""


def watch(
    base: ModuleType,
    begin: Callable[[], object],
    patches: Patches,
    when_imported: Callable[[str, Callable[[str], None]], None],
) -> None:
    """Call `begin` at the first fit of an estimator or a candidate; it may set `recorder`.

    Args:
        base: `sklearn.base`.
        begin: Called once.
        patches: Receives what stops the waiting for the first fit. Wrappers of methods stay.
        when_imported: Calls a function with the name of a module once that is loaded.
    """
    global _before_first

    def first() -> None:
        stop()
        if not _in_child():
            begin()

    def stop() -> None:
        global _before_first
        if _before_first is first:
            _before_first = None

    _before_first = first
    patches.later(stop)
    for owner in list(_classes(base.BaseEstimator)):  # those that were defined before
        for method in _METHODS:
            found = vars(owner).get(method)
            # scikit-learn's own decorator leaves `__wrapped__`.
            if found is None or not hasattr(found, "__wrapped__") or _is_ours(found):
                continue
            if owner.__module__.startswith("sklearn."):
                setattr(owner, method, _recorded(found))
    decorate = getattr(base, "_fit_context", None)  # scikit-learn 1.3 and newer
    if decorate is not None and not _is_ours(decorate):
        base._fit_context = _decorating(decorate)  # type: ignore[attr-defined]

    when_imported(_VALIDATION, _wrap_candidates)


def _wrap_candidates(module: str) -> None:
    """Wrap the function in both modules that have it: it is pickled by name, and must be the same in both."""
    original = getattr(sys.modules[module], CANDIDATE, None)
    if original is None or _is_ours(original):
        return
    ours = _recorded(original)
    for each in (sys.modules[module], sys.modules.get(_SEARCH)):
        if getattr(each, CANDIDATE, None) is original:
            setattr(each, CANDIDATE, ours)


def _decorating(original: Callable[..., Any]) -> Callable[..., Any]:
    def _fit_context(**options: Any) -> Any:
        decorate = original(**options)

        def decorator(method: Callable[..., Any]) -> Callable[..., Any]:
            decorated = decorate(method)
            return _recorded(decorated) if method.__name__ in _METHODS else decorated

        return decorator

    return passed_over(functools.update_wrapper(_fit_context, original))


def _recorded(original: Callable[..., Any]) -> Callable[..., Any]:
    def fit(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        before = _before_first  # another thread may reset it
        if before is not None:
            before()
        call = recorder
        try:
            if call is None:
                return original(estimator, *args, **kwargs)
            return call(original, estimator, args, kwargs)
        except BaseException as error:
            hide(error)
            raise

    return passed_over(functools.update_wrapper(fit, original))


def _in_child() -> bool:
    """Whether this process is a child of `multiprocessing`, where joblib runs fits of its parent's search."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _is_ours(method: Any) -> bool:
    code = getattr(method, "__code__", None)
    return code is not None and code.co_filename.endswith(PASSED_OVER)


def _classes(base: type) -> Iterator[type]:
    below: list[type] = type.__subclasses__(base)
    for each in below:
        yield each
        yield from _classes(each)
