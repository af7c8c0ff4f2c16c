"""`python -m emqproxy`."""

import sys

from emqproxy.cli import main

sys.exit(main())
