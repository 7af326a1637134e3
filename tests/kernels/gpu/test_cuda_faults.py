"""Plant faults in the text of CUDA kernels: each gives a wrong verdict or is caught."""

import pytest

from tests.support.cuda.faults import FAULTS, Faulty, finds, launches


@pytest.mark.parametrize("fault, pattern, instead, expected", FAULTS, ids=[f[0] for f in FAULTS])
def test_a_planted_fault_is_found(fault, pattern, instead, expected, device):
    faulty = Faulty(device, pattern, instead)
    found = ["nothing"]
    for launch in launches():
        if expected not in found[-1]:
            found.append(finds(faulty, launch))
    assert faulty.planted, "the text has no such place any more"
    assert expected in found[-1], found


def test_unchanged_text_passes(device):
    assert {finds(device, launch) for launch in launches()} == {"nothing"}


def test_a_search_that_never_ends_is_ended(device):
    assert "endless" in finds(Faulty(device, r"k = middle \+ 1", "k = middle"), launches()[-1])
