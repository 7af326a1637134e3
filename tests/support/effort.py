"""The amount of testing: a few minutes, or everything with SKIPSTONE_TESTS=long (`make long`)."""

import os
from typing import Final

import pytest

LONG: Final = os.environ.get("SKIPSTONE_TESTS") == "long"
only_long = pytest.mark.skipif(not LONG, reason="`make long` runs it")
