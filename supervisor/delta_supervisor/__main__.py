"""`python -m delta_supervisor`."""

import sys

from delta_supervisor.cli import main

sys.exit(main())
