"""How much the tests do: what fits in a few minutes, or, with SKIPSTONE_TESTS=long (`make long`), all that there is."""

import os
from typing import Final

LONG: Final = os.environ.get("SKIPSTONE_TESTS") == "long"
