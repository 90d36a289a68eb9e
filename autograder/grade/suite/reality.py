"""A submission's functions under a real ``mpiexec``, or on torch's own gloo: values only.

Real ranks can't be confined one from another, so nothing is counted here. All calls of a
module on p ranks go through one ``mpiexec -n p`` (starting it takes longer than the calls), those
of all world sizes through one sandbox.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.course.limits import Limits
from autograder.grade.real_ranks import gloo_driver, mpi_driver
from autograder.grade.real_ranks.job import MpiOutcome, run_mpi
from autograder.sandbox.allowance import Allowance
from autograder.sandbox.warm_sandbox import WarmNursery
from ringside.checking.real_calls import RealRun
from ringside.errors import CodecError, RankError
from ringside.network import codec, failure


class RealityError(RuntimeError):
    """Real MPI did not answer, and that is not known to be the submission's fault."""


class RanksDoNotEnd(RealityError):
    """Real ranks used up what they may.

    Attributes:
        allowed: what that was, as what follows "did not end".
        by_clock: whether only the clock has ended them, on a machine that may have been busy.
    """

    def __init__(self, launcher: str, sizes: Sequence[int], allowance: Allowance) -> None:
        self.allowed, self.by_clock = allowance.ended or "", allowance.ended_by_clock
        ranks = " and ".join(map(str, sizes))
        super().__init__(f"{launcher} on {ranks} ranks did not end {self.allowed}")


class RanksEnded(RealityError):
    """Real ranks ended, or went past a limit and were ended, and none said why."""


class RealityUnavailable(RealityError):
    """No sandbox of this machine can hold an MPI job."""


@dataclass(frozen=True)
class RealCall:
    """One call: the arguments of each rank, after ``comm``."""

    target: str
    world_size: int
    args: list[tuple[Any, ...]]


_DRIVERS = {"mpiexec": mpi_driver, "gloo": gloo_driver}


class RealRanks:
    """Runs batches of calls under ``mpiexec``, or on gloo, one launch a world size."""

    def __init__(
        self,
        folder: Path,
        *,
        sandbox: bool,
        launcher: str = "mpiexec",
        nursery: WarmNursery | None = None,
        limits: Limits | None = None,
        own_hashes: bool = False,
    ) -> None:
        self._folder = folder
        self._limits = limits or Limits()
        self._nursery = nursery
        self._sandbox = sandbox
        self._own_hashes = own_hashes
        self.launcher = launcher

    def of(self, folder: Path) -> RealRanks:
        """The same ranks for the modules of another folder."""
        return RealRanks(
            folder,
            sandbox=self._sandbox,
            launcher=self.launcher,
            nursery=self._nursery,
            limits=self._limits,
            own_hashes=self._own_hashes,
        )

    def call_all(self, calls: Sequence[RealCall], *, soon: bool = False) -> list[RealRun]:
        """One result a call; comm and COMM_WORLD have equal ranks.

        Args:
            soon: they must end within a small part of what they may use.

        Raises:
            RealityUnavailable: real MPI can't be run here.
            RanksEnded: it broke without a result.
            RanksDoNotEnd: they have used up what a module's calls may use.
        """
        sizes = list(dict.fromkeys(call.world_size for call in calls))
        worlds = [[call for call in calls if call.world_size == size] for size in sizes]
        outcome = self._launch(sizes, worlds, soon)
        runs = {
            size: iter(_read(self.launcher, outcome, results, mine))
            for size, results, mine in zip(sizes, outcome.results, worlds, strict=True)
        }
        return [next(runs[call.world_size]) for call in calls]

    def _launch(self, sizes: list[int], worlds: list[list[RealCall]], soon: bool) -> MpiOutcome:
        limits = self._limits.of_real_ranks
        allowance = Allowance(limits.soon if soon else limits)
        outcome = run_mpi(
            sizes,
            self._folder,
            codec.encode([[(call.target, call.args) for call in world] for world in worlds]),
            allowance,
            driver=Path(str(_DRIVERS[self.launcher].__file__)).read_text(encoding="utf-8"),
            launcher=self.launcher,
            trust_submissions=not self._sandbox,
            nursery=self._nursery,
            own_hashes=self._own_hashes,
        )
        if outcome.status == "unavailable":
            raise RealityUnavailable(outcome.output)
        if outcome.status == "timeout":
            raise RanksDoNotEnd(self.launcher, sizes, allowance)
        return outcome


def _read(
    launcher: str, outcome: MpiOutcome, results: Sequence[bytes], calls: Sequence[RealCall]
) -> list[RealRun]:
    frames = [_frames(stream) for stream in results]
    runs: list[RealRun] = []
    for call in calls:
        answers = [next(frames[rank], ("nothing", None)) for rank in range(call.world_size)]
        bad = [rank for rank, (kind, _) in enumerate(answers) if kind != "value"]
        if not bad:
            runs.append(RealRun([value for _, value in answers], None))
            continue
        errors = [_error(rank, answers[rank][1]) for rank in bad if answers[rank][0] == "error"]
        if not errors:
            tail = " ".join(outcome.output[-300:].split())
            raise RanksEnded(f"{call.target} on {launcher}: {outcome.status}: {tail}")
        # gloo tells the others that their partner is gone, which is no news.
        errors.sort(key=lambda error: "gloo/transport" in error.message)
        # Nothing was called after this one.
        return runs + [RealRun([None], errors[0])] * (len(calls) - len(runs))
    return runs


def _error(rank: int, report: Any) -> RankError:
    """What a rank reports; it may be damaged, or written by the submission."""
    try:
        return failure.decode(rank, report)
    except (CodecError, TypeError, ValueError, OverflowError, AttributeError):
        return RankError(rank, "an exception", "and its report can't be read")


def _frames(stream: bytes) -> Iterator[tuple[str, Any]]:
    """The frames that one rank sent back; what is cut off or damaged ends them."""
    at = 0
    while at + 4 <= len(stream):
        (length,) = struct.unpack_from("<I", stream, at)
        try:
            kind, value = codec.decode(stream[at + 4 : at + 4 + length])
        except (CodecError, TypeError, ValueError):
            return
        yield str(kind), value
        at += 4 + length
