"""The files in which Python programs without an adapter hand their stack samples to the agent."""

SUFFIX = ".program"


def samples_name(process: str, part: int) -> str:
    """Name of one part of the samples of a process, whose key is `pid-start`.

    Its first line has begin and end (monotonic ns) and the CPU time of sampling, ns. Each other line has the
    number of samples, the time they stand for (ns), the place of the innermost function of the user's own
    code in the stack (-1 without one), and the stack: functions, outermost first, joined by `;`.
    """
    return f"{process}.{part}{SUFFIX}"
