"""Shapes of CUDA kernels, and their comparison with the CPU."""

import dataclasses
import random

import numpy as np

import skipstone as ss
from skipstone.ir.evaluation import oracle
from skipstone.kernels.gpu import gpu
from skipstone.kernels.gpu.cuda_text import DeviceShape, source_of
from skipstone.kernels.gpu.resident import Resident
from skipstone.kernels.pack import planes
from skipstone.kernels.pack.planes import word_count
from skipstone.kernels.run.run import run
from tests.support.effort import LONG
from tests.support.predicates.predicates import predicate
from tests.support.statistics.backends import random_zone_map

FORMS = ("all", "chosen", "many")


def shapes(launch, forms=FORMS):
    """Return the shapes that a launch needs compiled."""
    return [DeviceShape(launch.shape, form) for form in forms if launch.params or form != "many"]


def compile_ahead(device, cases):
    """Compile kernels of (launch, forms), many at a time if the device can."""
    if hasattr(device, "compile"):
        device.compile(
            source_of(shape) for launch, forms in cases for shape in shapes(launch, forms)
        )


def agree(device, launch, r, forms=FORMS):
    """Compare some forms of a launch's kernel with NumPy, and return the planes of the first.

    The forms always include the first of `FORMS`.
    """
    if None not in launch.answers:
        return list(launch.answers)
    expected, resident = run(launch, "numpy").planes, Resident(device)
    got = gpu.run(launch, resident)
    same(got, expected)
    if "chosen" in forms:
        words = word_count(launch.n)
        todo = np.array(sorted(r.sample(range(words), r.randint(1, words))), np.uint32)
        same(
            gpu.run(launch, resident, todo),
            [p if isinstance(p, bool) else p[todo] for p in expected],
        )
    if "many" in forms:
        together(
            resident,
            [
                launch,
                *(
                    dataclasses.replace(launch, params=exchanged(launch.params, r))
                    for _ in range(2)
                ),
            ],
        )
    return got


def together(resident, launches):
    """Check launches that differ only in literals, run by one kernel."""
    for one, verdicts in zip(launches, gpu.many_on_host(launches, resident), strict=True):
        assert np.array_equal(verdicts, planes.verdicts(run(one, "numpy").planes, one.n))


def exchanged(params, r):
    """Return other literals for the same lanes."""
    return [r.choice([q for q in params if q.dtype == p.dtype]) for p in params]


def same(got, expected):
    for a, b in zip(got, expected, strict=True):
        assert a is b if isinstance(b, bool) else np.array_equal(a, b)


def random_predicates(seed, wanted, device):
    """Check as many shapes as wanted, and return their number.

    Each runs in two of the three forms, or in all of them in a long run.
    """
    r, cases, seen = random.Random(seed), [], set()
    while len(seen) < wanted:
        z, schema = random_zone_map(r, r.choice((3, 64, 65, 70, 200)))
        stats, facts = z.statistics(schema), [z.facts(j) for j in range(len(z.rows))]
        for _ in range(6):
            p = ss.PruningPredicate(predicate(r, z.fields, depth=r.choice((0, 1, 2))).sql, schema)
            launch = stats.launch(p.program)
            if launch.shape not in seen and None in launch.answers:
                seen.add(launch.shape)
                forms = FORMS if LONG else ("all", r.choice(FORMS[1:]))
                cases.append(
                    (
                        launch,
                        forms,
                        p,
                        [
                            oracle.verdict(p.node, f, rows)
                            for f, rows in zip(facts, z.rows, strict=True)
                        ],
                    )
                )
    compile_ahead(device, [case[:2] for case in cases])
    for launch, forms, p, expected in cases:
        assert planes.verdicts(agree(device, launch, r, forms), launch.n).tolist() == expected, (
            p.expr
        )
    return len(seen)
