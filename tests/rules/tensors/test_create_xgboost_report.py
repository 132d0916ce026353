"""Tests of the rule CreateXgboostReport."""

from __future__ import annotations

import numpy as np
from tests.rules.tables import ENDED, look
from tests.rules.tensor_rows import labelled, numbers
from tests.rules.trees import importance

from holter.rules.tensors.create_xgboost_report import CreateXgboostReport
from holter.schema.table import Table


class TestCreateXgboostReport:
    def details(self, tables):
        rule = CreateXgboostReport()
        issues, window = look(rule, job=ENDED, **tables)
        assert issues == []
        return window.details

    def test_a_binary_job(self):
        tables = labelled([0, 1, 1, 0], [0.1, 0.9, 0.3, 0.2])
        tables["tensors"] = Table.concat([tables["tensors"], importance("gain", [3.0, 1.0])["tensors"]])
        tables["scalars"] = numbers("validation-logloss", {0: 0.7, 5: 0.4})
        details = self.details(tables)
        assert details["job_type"] == "binary"
        assert details["label_distribution"] == {"0": 2, "1": 2}
        assert details["confusion"]["rows_are_labels"] == [[2, 0], [1, 1]]
        assert details["last_losses"]["validation-logloss"] == {"step": 5, "value": 0.4}
        assert details["feature_importance"]["gain"] == {"f0": 0.75, "f1": 0.25}

    def test_multiclass_and_regression(self):
        assert self.details(labelled([0, 2, 1], np.eye(3)))["job_type"] == "multiclass"
        details = self.details(labelled([0.5, 1.5, 9.0], [0.4, 1.5, 8.0]))
        assert details["job_type"] == "regression"
        assert sum(details["residuals"]["counts"]) == 3
