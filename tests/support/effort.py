"""The amount of testing: a few minutes, or everything with SKIPSTONE_TESTS=long (`make long`)."""

import os
from typing import Final

LONG: Final = os.environ.get("SKIPSTONE_TESTS") == "long"
