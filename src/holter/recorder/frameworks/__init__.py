"""Adapters of frameworks, one file each.

An adapter is a module with one function::

    def attach(session: Session) -> Callable[[], None]: ...

The recorder calls it once in a process, right after the framework's top module was executed. It returns a
function that removes every hook. Each hook calls the framework's or the user's function exactly once, with
unchanged arguments, and lets its exceptions pass.
"""
