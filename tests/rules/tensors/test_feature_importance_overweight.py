"""Tests of the rule FeatureImportanceOverweight."""

from __future__ import annotations

import pytest
from tests.rules.tables import classic, judged, lack
from tests.rules.trees import importance

from holter.rules.tensors.feature_importance_overweight import FeatureImportanceOverweight


class TestFeatureImportanceOverweight:
    def test_three_features_carry_too_much(self):
        weights = importance("weight", [0.5, 0.25, 0.1, 0.1, 0.05])
        (issue,) = judged(classic(FeatureImportanceOverweight), weights)
        assert issue.evidence["value"] == pytest.approx(0.85)
        assert list(issue.evidence["features"]) == ["f0", "f1", "f2"]
        assert not judged(classic(FeatureImportanceOverweight), importance("weight", [0.2] * 5))

    def test_a_model_of_three_features(self):
        assert judged(classic(FeatureImportanceOverweight), importance("weight", [0.5, 0.5]))
        assert lack(FeatureImportanceOverweight(), importance("gain", [0.5, 0.5])).have == 2
