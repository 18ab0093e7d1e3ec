"""`tta-bench` and `python -m tta_bench`: Ctrl-C works from the first moment, while the rest is still being imported."""

import os
import signal
import sys
from types import FrameType


def main() -> int:
    """Run the command line. A signal before it is ready ends the process with one line: nothing has begun yet."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)
    from tta_bench.cli.main import main as run

    return run()


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"tta-bench: interrupted\n")
    os._exit(128 + number)  # an exception would be ignored inside some imports, and is a traceback in others


if __name__ == "__main__":
    sys.exit(main())
