"""The surface of mpi4py that students use, as checks that run on any communicator.

The same checks run on Ringside's network and on real MPI::

    mpiexec -n 3 python tests/ringside/mpi/surface.py

prints a JSON object: for each check, what went wrong on which rank, or null.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import traceback
from collections.abc import Callable, Iterator

from mpi4py import MPI

MODULES = [
    "surface_buffers",
    "surface_collectives",
    "surface_communicators",
    "surface_environment",
    "surface_i_collectives",
    "surface_matched",
    "surface_neighbours",
    "surface_objects",
    "surface_point_to_point",
    "surface_reductions",
    "surface_requests",
    "surface_types",
    "surface_windows",
]


def checks() -> dict[str, Callable[[MPI.Intracomm], None]]:
    """Return all checks by name."""
    found: dict[str, Callable[[MPI.Intracomm], None]] = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name, value in sorted(vars(module).items()):
            if name.startswith("check_"):
                assert name not in found, name
                found[name] = value
    return found


def run_check(comm: MPI.Intracomm, name: str) -> None:
    """Run one check."""
    checks()[name](comm)


@contextlib.contextmanager
def raises(*kinds: type[BaseException], error_class: int | None = None) -> Iterator[None]:
    """Expect an exception, of MPI's class ``error_class`` if that is given."""
    try:
        yield
    except kinds or (MPI.Exception,) as error:  # noqa: B030
        if error_class is not None:
            assert error.Get_error_class() == error_class, repr(error)
    else:
        raise AssertionError(f"did not raise {[k.__name__ for k in kinds] or 'MPI.Exception'}")


def main() -> None:
    """Run all checks on COMM_WORLD; rank 0 prints what went wrong."""
    world = MPI.COMM_WORLD
    chosen = sys.argv[1:]
    report: dict[str, dict[int, str] | None] = {}
    for name, check in checks().items():
        if chosen and name not in chosen:
            continue
        failure = None
        try:
            check(world)
        except Exception:
            failure = traceback.format_exc()
            print(f"rank {world.rank}: {name}\n{failure}", file=sys.stderr, flush=True)
        failures = {r: text for r, text in enumerate(world.allgather(failure)) if text}
        report[name] = failures or None
    if world.rank == 0:
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
