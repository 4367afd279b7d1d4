"""`python -m everystep.cli`."""

import sys

from everystep.cli.main import main

sys.exit(main())
