"""Finds iterations, evaluations and losses in those estimators whose loops are in Python."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holter.recorder import imports
from holter.schema.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from holter.recorder.frameworks.scikit_learn.fits import Fits

_PERCEPTRON = "sklearn.neural_network._multilayer_perceptron"
_BOOSTING = "sklearn.ensemble._gb"
_HISTOGRAMS = "sklearn.ensemble._hist_gradient_boosting.gradient_boosting"
_VALIDATION = "sklearn.model_selection._validation"


class Iterations:
    """Hooks functions that scikit-learn calls once per iteration.

    A fit of a version without these functions is one step.
    """

    def __init__(self, fits: Fits) -> None:
        self._fits, self._rounds = fits, fits.rounds
        self._trees = self._trees_per_round = 0
        """Trees of histogram-based boosting that have begun to grow, and how many a round has."""

    def watch(self) -> None:
        """Hook the modules that are loaded, and the others once they are."""
        base = sys.modules["sklearn.base"]
        for mixin in ("ClassifierMixin", "RegressorMixin"):
            self._rounds.time(getattr(base, mixin), "score", "score", Phase.EVAL)
        hooks: dict[str, Callable[[Any], None]] = {
            _PERCEPTRON: self._perceptron,
            _BOOSTING: self._boosting,
            _HISTOGRAMS: self._histograms,
            _VALIDATION: self._validation,
        }
        for module, hook in hooks.items():
            imports.when_imported(module, self._guarded(hook))

    def _guarded(self, hook: Callable[[Any], None]) -> Callable[[str], None]:
        def call(module: str) -> None:
            try:
                hook(sys.modules[module])
            except Exception as error:
                self._rounds.breaker.fault(error)

        return call

    def _before(self, owner: Any, method: str, call: Callable[..., object]) -> None:
        self._rounds.patches.before(owner, method, call, self._rounds.breaker)

    def _after(self, owner: Any, method: str, call: Callable[..., object]) -> None:
        self._rounds.patches.after(owner, method, call, self._rounds.breaker)

    def _perceptron(self, module: Any) -> None:
        fits = self._fits

        def batch(estimator: Any, *_: object, **__: object) -> None:
            if estimator.solver != "lbfgs":  # which tries several steps in an iteration
                fits.iterate()

        def epoch(
            _: object, estimator: Any, early_stopping: bool = False, *__: object, **___: object
        ) -> None:
            fits.log("loss", estimator.loss_)
            if early_stopping:
                fits.log("validation-score", estimator.validation_scores_[-1])

        self._before(module.BaseMultilayerPerceptron, "_backprop", batch)
        self._after(module.BaseMultilayerPerceptron, "_update_no_improvement_count", epoch)
        for owner in (module.MLPClassifier, module.MLPRegressor):
            self._rounds.time(owner, "_score", "score", Phase.EVAL)  # the validation of early stopping

    def _boosting(self, module: Any) -> None:
        fits = self._fits

        def stage(estimator: Any, at: int, *_: object, **__: object) -> None:
            if at:
                fits.log("loss", estimator.train_score_[at - 1])
            fits.iterate()

        def stages(count: int, estimator: Any, *_: object, **__: object) -> None:
            fits.log("loss", estimator.train_score_[count - 1])

        self._before(module.BaseGradientBoosting, "_fit_stage", stage)
        self._after(module.BaseGradientBoosting, "_fit_stages", stages)

    def _histograms(self, module: Any) -> None:
        fits = self._fits
        owner = module.BaseHistGradientBoosting

        def binning(estimator: Any, *_: object, **__: object) -> None:
            self._trees, self._trees_per_round = 0, estimator.n_trees_per_iteration_

        def tree(*_: object, **__: object) -> None:
            if self._trees % self._trees_per_round == 0:
                fits.iterate()
            self._trees += 1

        def scored(_: object, estimator: Any, *__: object, **___: object) -> None:
            fits.log("train-score", estimator.train_score_[-1])
            if estimator.validation_score_:
                fits.log("validation-score", estimator.validation_score_[-1])

        self._before(owner, "_bin_data", binning)
        self._rounds.time(owner, "_bin_data", "bin data", Phase.DATA_LOADING)
        self._before(module.TreeGrower, "grow", tree)
        for method in ("_check_early_stopping_loss", "_check_early_stopping_scorer"):
            self._rounds.time(owner, method, "score", Phase.EVAL)
            self._after(owner, method, scored)

    def _validation(self, module: Any) -> None:
        self._rounds.time(module, "_score", "score", Phase.EVAL)
