"""`python -m softbench`: the command line in a bare checkout, where no script is installed."""

import sys

from softbench.cli import main

if __name__ == "__main__":
    sys.exit(main())
