"""`python tests/fuzz`: the command line of the fuzz."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # tests/, as in a test session

from fuzz.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
