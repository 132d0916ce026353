"""Importances of features, as XGBoost saves them."""

from __future__ import annotations

from tests.rules.tensor_rows import rows, tensor


def importance(kind, shares):
    return {
        "tensors": rows(*(tensor(f"feature_importance/{kind}/f{i}", {0: [s]}) for i, s in enumerate(shares)))
    }
