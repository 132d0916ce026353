"""Tests of the rule TreeDepth."""

from __future__ import annotations

import numpy as np
import pytest
from tests.rules.tables import classic, judged
from tests.rules.tensor_rows import rows, tensor, together, whole

from holter.rules.tensors.tree_depth import TreeDepth


class TestTreeDepth:
    @pytest.mark.parametrize(("largest", "fires"), [(14, False), (15, False), (30, False), (31, True)])
    def test_depth_by_the_largest_node(self, largest, fires):
        nodes = {"tensors": rows(tensor("trees/Node", {0: list(range(largest + 1))}))}
        assert bool(judged(classic(TreeDepth), nodes)) == fires

    def test_depth_along_the_links(self):
        # Grown leaf by leaf: node 2i - 1 has the children 2i and 2i + 1, six levels with node 12 the largest.
        yes = [1, 3, np.nan, 5, np.nan, 7, np.nan, 9, np.nan, 11, np.nan, np.nan, np.nan]
        no = [2, 4, np.nan, 6, np.nan, 8, np.nan, 10, np.nan, 12, np.nan, np.nan, np.nan]
        columns = {"trees/Node": list(range(13)), "trees/Yes": yes, "trees/No": no}
        linked = together(*(whole(name, {0: values}) for name, values in columns.items()))
        assert judged(TreeDepth(depth=5), linked)[0].evidence["value"] == 6
        assert not judged(TreeDepth(depth=6), linked)
        assert not judged(TreeDepth(depth=5, use_links=False), linked)
