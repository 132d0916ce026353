"""Tests of the rule NLPSequenceRatio."""

from __future__ import annotations

import pytest
from tests.rules.tables import classic, judged, lack
from tests.rules.tensor_rows import whole

from holter.rules import BadRule
from holter.rules.data.nlp_sequence_ratio import NLPSequenceRatio


class TestNLPSequenceRatio:
    def tokens(self, *batches):
        return whole("embedding0_input_0", dict(enumerate(batches)), role="token_ids")

    def test_padding(self):
        assert judged(classic(NLPSequenceRatio), self.tokens([[0, 0, 0, 5]]))[0].evidence["value"] == 75
        assert not judged(classic(NLPSequenceRatio), self.tokens([[0, 0, 5, 5]]))

    def test_several_tokens(self):
        rule = classic(NLPSequenceRatio, token_values="0, 7", token_thresholds_percent="80, 20")
        assert judged(rule, self.tokens([[0, 7, 1, 1]]))[0].code == "7"
        with pytest.raises(BadRule, match="one number for each"):
            NLPSequenceRatio(token_values="0, 7")

    def test_modern_counts_several_batches(self):
        assert not judged(NLPSequenceRatio(), self.tokens(*[[[0, 0, 0, 5]]] * 9))
        assert judged(NLPSequenceRatio(), self.tokens(*[[[0, 0, 0, 5]]] * 10))[0].step_start == 9

    def test_zeros_need_no_values(self):
        tables = {"tensors": self.tokens([[0, 0, 0, 5]])["tensors"]}
        assert judged(classic(NLPSequenceRatio), tables)
        rule = classic(NLPSequenceRatio, token_values="7", token_thresholds_percent="20")
        assert lack(rule, tables).reason == "no_match"
