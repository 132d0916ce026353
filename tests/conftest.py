"""What holds for all tests: signals do what they usually do, however the tests were started."""

from __future__ import annotations

import signal

# Started in the background, as by nohup or `&` in a script, a process ignores these, and all its children do.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
