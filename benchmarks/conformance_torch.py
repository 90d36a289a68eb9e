"""torch's own distributed tests on our process group: passed, failed, out of scope.

    python benchmarks/conformance_torch.py [PATTERN]

The tests are ``DistributedTest`` of torch's wheel (torch.testing._internal.distributed), every one
that gloo gets on CPUs, on four ranks, or as many as a
test asks for. What the suite itself skips for gloo on CPUs is counted
apart, with its reason. Out of scope are the tests named below, each with the reason why it can't
apply here; a test that merely fails is a failure.
"""

from __future__ import annotations

import collections
import fnmatch
import sys
import time
from pathlib import Path
from typing import Any

from ringside import Session

WORLD_SIZES = (4, 8, 2, 3)  # the first at which torch's decorators let the test run
SUITE = "benchmarks.conformance.torch_suite"

# Patterns of names, and why such tests can't apply.
_CUDA = "needs CUDA devices, and torch's own decorators don't say so"
_TIME = "expects an error when real time runs out; here a rank that never comes is a verdict"
OUT_OF_SCOPE: dict[str, str] = {
    "test_all_to_all_cuda*": _CUDA,
    "test_all_to_all_*group_cuda": _CUDA,
    "test_batch_isend_irecv_op_err": _CUDA,
    "test_barrier_timeout_*": _TIME,
    "test_monitored_barrier_gloo*": _TIME,
    "test_monitored_barrier_wait_all_ranks": _TIME,
    "test_monitored_barrier_failure_order": _TIME,
    "test_monitored_barrier_allreduce_hang*": _TIME,
    "test_get_backend": "the backend has a name of its own",
    "test_get_rank": "ranks meet in files, which confined ranks may not write",
    "test_SyncBatchNorm_process_group": "needs torchvision",
}


def out_of_scope(name: str) -> str | None:
    """Why a test can't apply; None if it does."""
    for pattern, reason in OUT_OF_SCOPE.items():
        if fnmatch.fnmatch(name, pattern):
            return reason
    return None


def _wrong_size(values: list[Any]) -> bool:
    return any(outcome == "skipped" and "world size" in why for outcome, why in values)


def main() -> int:
    pattern = sys.argv[1] if len(sys.argv) > 1 else "*"
    folder = Path(__file__).resolve().parent / "conformance"
    counts: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    skipped: collections.Counter[str] = collections.Counter()
    begun = time.perf_counter()
    with Session(folder, preload=[SUITE]) as session:
        (names,) = session.call("torch_suite:listed", 1, front_end="torch").raise_for_error().values
        for name in fnmatch.filter(names, pattern):
            reason = out_of_scope(name)
            if reason is not None:
                counts["out of scope"] += 1
                reasons[reason] += 1
                continue
            for world_size in WORLD_SIZES:
                result = session.call(
                    "torch_suite:run", world_size, (name,), front_end="torch", timeout_s=60.0
                )
                if result.error is not None or not _wrong_size(result.values):
                    break
            if result.error is not None:
                counts["failed"] += 1
                text = str(result.error)
                print(f"FAILED {name}\n    " + "\n    ".join(text.splitlines()[:12]), flush=True)
                continue
            outcomes = {outcome for outcome, _ in result.values}
            if outcomes == {"passed"}:
                counts["passed"] += 1
            else:  # torch's decorators skip on some ranks by sizes, on all by features
                counts["skipped"] += 1
                skipped[next(why for outcome, why in result.values if outcome == "skipped")] += 1
    print(f"\ntorch's own distributed tests on {WORLD_SIZES[0]} ranks", end="")
    print(f" ({time.perf_counter() - begun:.0f} s)")
    for outcome in ("passed", "failed", "out of scope", "skipped"):
        print(f"  {counts[outcome]:4d}  {outcome}")
    for title, table in (("out of scope", reasons), ("skipped by torch for gloo on CPUs", skipped)):
        if table:
            print(f"{title}:")
            for reason, count in table.most_common():
                print(f"  {count:4d}  {reason}")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
