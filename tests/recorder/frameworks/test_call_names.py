"""The name of a call that runs, as its source writes it, without arguments."""

from __future__ import annotations

import sys

import pytest

from holter.recorder.sampling.stack_text import called_in

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="Python 3.10 does not know the columns of an instruction"
)


class Peer:
    def recv(self, *_: object) -> str:
        return called_in(sys._getframe(1))

    def same(self) -> Peer:
        return self


def made(_: int) -> Peer:
    return Peer()


def test_a_call_is_named_by_what_iscalled_in():
    peer, peers = Peer(), {"first": [Peer()]}
    assert peer.recv(8) == "peer.recv"
    assert peers["first"][0].recv(8) == "peers[][].recv"
    assert made(8).same().recv() == "made().same().recv"
    assert (peer or made(1)).recv() == "().recv"


def test_a_call_of_several_lines_is_named_by_its_beginning():
    peer = Peer()
    told = peer.recv(
        8,
        9,
    )
    assert told == "peer.recv"
