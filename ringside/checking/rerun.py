"""What a line that reproduces asks: ``ringside run ring.py:all_reduce --check bytes=3:192``.

A check of ``ringside.checking.assertions`` that fails writes itself into the line, with what it
allows. Typed again, the line makes the same check, and says the same sentence::

    own                      the library's collectives weren't called
    inputs                   no rank changed its input
    bytes=RANK:BOUND         what a rank sent, and received
    pair=SOURCE:DEST:BOUND   the bytes from one rank to another
    messages=RANK:BOUND      how many messages a rank sent
    peers=RANK:PEERS:RULE    with whom a rank exchanged messages
    requests=KINDS           what was started was waited for
    moved=RANK:BOUND:RULE    as bytes, with the library's collectives as a ring's
    time=BOUND_S,FULL,HALF   the virtual time; a fourth number stretches the run to so many ranks
    part                     on a part of the world as on the whole
    short                    long messages as short ones
    factors                  in a run whose passes are announced; see ``ringside.factors``

An assignment has checks of its own: ``CHECKS`` of its ``examples.py``, by name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ringside.checking import assertions as checking
from ringside.checking import examples, inputs
from ringside.checking.assertions import Case, Verdict
from ringside.errors import TargetError
from ringside.factors import Factors
from ringside.session.session import Result
from ringside.timing.extrapolation import widen
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import Kind

_SEED = b"ringside run"  # of factors: a line says the same each time

Run = Callable[..., Result]
Check = Callable[[Result, Case, str], None]


def judge(
    run: Run,
    case: Case,
    checks: Sequence[str],
    path: Path,
    function: str,
    options: inputs.Options,
) -> tuple[Result, Verdict | None]:
    """The run, and what its values and the checks say of it; None: nothing is wrong.

    Args:
        run: ``run(machine=..., members=..., world_size=...)`` makes the call; all may be left out.
        case: what a sentence is about.
        path: the function's file.
        function: what is called; a supplied one may call what the case is about.

    Raises:
        TargetError: a check that isn't known.
    """
    extra_checks: Mapping[str, Check] = getattr(examples.beside(path), "CHECKS", {})
    all_checks = {**_CHECKS, **extra_checks}
    pairs = [_named(check, all_checks) for check in checks]
    both = [pair for pair in pairs if pair[0] in ("part", "short")]
    observed = any(name == "factors" for name, _ in pairs)
    last: list[Result] = []

    def checked(**there: Any) -> Result:
        result = run(**there, factors=Factors(_SEED) if observed else None)
        last.append(result)
        _values(result, case, path, function, options)
        for name, value in pairs:
            if (name, value) not in both:
                try:
                    all_checks[name](result, case, value)
                except (ValueError, IndexError) as error:
                    raise TargetError(f"--check {name}={value} can't be made: {error}.") from None
        return result

    try:
        for name, value in both:
            if name == "part":
                _on_members(checked, run, case, value)
            else:
                checking.with_waiting_sends(
                    lambda **there: checked(**{"machine": checking.buffered(), **there}), case
                )
        if not both:
            checked()
    except Verdict as verdict:
        # The sentence is about the first run; what that is compared with is made after it.
        return last[0], verdict
    return last[0], None


def _on_members(checked: Run, run: Run, case: Case, comm: str) -> None:
    members, world_size = run.keywords["members"], run.keywords["world_size"]  # type: ignore[attr-defined]
    if members is None:
        raise TargetError("--check part compares --members with the whole world: name them.")

    def there_or_here(**there: Any) -> Result:
        return checked(**(there or {"members": None, "world_size": case.world_size}))

    checking.on_members(there_or_here, members, world_size, case, comm=comm or "comm")


def _named(check: str, known: Mapping[str, Check]) -> tuple[str, str]:
    name, _, value = check.partition("=")
    if name not in known and name not in ("part", "short"):
        names = ", ".join(sorted([*known, "part", "short"]))
        raise TargetError(f"--check {check}: there is no check {name!r}; there are: {names}.")
    return name, value


def _values(result: Result, case: Case, path: Path, function: str, options: inputs.Options) -> None:
    """Every rank returned what it must, where that is known."""
    checking.assert_ran(result, case)
    module, case = examples.beside(path), case.seen_in(result)
    check = getattr(module, "check", None)
    for rank, value in enumerate(result.values):
        if check is not None and check(case, function, rank, value, options):
            continue
        if value is None and inputs.takes_group(path, function):
            continue  # it overwrites its tensor
        truth = inputs.expected(function, case.world_size, rank, options, path)
        if isinstance(truth, np.ndarray):
            scale = inputs.scale(function, case.world_size, rank, options)
            parts = inputs.parts(function, case.world_size, rank, options)
            checking.assert_array(value, truth, scale, case, f"rank {rank}'s result", parts)
        elif truth is not None and not inputs.matches(value, truth):
            raise case.fail(
                f"rank {rank} returned {inputs.short(value)}; it must be {inputs.short(truth)}."
            )


def _bounds(value: str, world_size: int) -> list[float]:
    """``3:192`` as bounds of all ranks, of which one is bounded; ``192`` for each of them."""
    rank, sign, bound = value.rpartition(":")
    if not sign:
        return [float(bound)] * world_size
    bounds = [np.inf] * world_size
    bounds[int(rank)] = int(bound)
    return bounds


def _bytes(result: Result, case: Case, value: str) -> None:
    members = result.members or None
    checking.assert_bytes(result, _bounds(value, case.world_size), case, members)  # type: ignore[arg-type]


def _messages(result: Result, case: Case, value: str) -> None:
    checking.assert_messages(result, _bounds(value, case.world_size), case)  # type: ignore[arg-type]


def _pair(result: Result, case: Case, value: str) -> None:
    source, dest, bound = map(int, value.split(":"))
    allowed: Any = np.full((result.world_size,) * 2, np.inf)
    allowed[source, dest] = bound
    checking.assert_pairs(result, allowed, case)


def _peers(result: Result, case: Case, value: str) -> None:
    rank, peers, rule = value.split(":", 2)
    allowed = [set(range(result.world_size)) for _ in range(result.world_size)]
    allowed[int(rank)] = {int(peer) for peer in peers.split(",") if peer}
    checking.assert_peers(result, allowed, case, rule)


def _requests(result: Result, case: Case, value: str) -> None:
    kinds = [Kind[name] for name in value.split(",")] if value else (Kind.ISEND, Kind.IRECV)
    checking.assert_requests_complete(result, case, kinds)


def _moved(result: Result, case: Case, value: str) -> None:
    rank, bound, *rule = value.split(":", 2)
    checking.assert_moved(result, float(bound), case, "".join(rule), rank=int(rank))


def _time(result: Result, case: Case, value: str) -> None:
    bound_s, full, half, *wide = map(float, value.split(","))
    timed: Any = result
    if wide:
        time_s = replay(widen(result.trace, int(wide[0])), result.machine).makespan_s
        timed = SimpleNamespace(makespan_s=time_s, comm_calls=[], machine=result.machine)
    checking.assert_makespan(timed, bound_s, case, full=full, half=half)


_CHECKS: Mapping[str, Check] = {
    "own": lambda result, case, _: checking.assert_own_messages(result, case),
    "inputs": lambda result, case, _: checking.assert_inputs_kept(result, case),
    "bytes": _bytes,
    "messages": _messages,
    "pair": _pair,
    "peers": _peers,
    "requests": _requests,
    "moved": _moved,
    "time": _time,
    "factors": lambda result, case, _: None,  # how it was run
}


def made(
    session: Any,
    target: str,
    args: Any,
    *,
    machine: Machine,
    members: Sequence[int] | None,
    world_size: int,
    seed: int | None,
    timeout_s: float | None,
) -> Run:
    """The call of a line, to be made once or more; what it is made with may be changed."""

    def run(**options: Any) -> Result:
        size = options.pop("world_size")
        result: Result = session.call(target, size, args, **options)
        return result

    return functools.partial(
        run, machine=machine, members=members, world_size=world_size, seed=seed, timeout_s=timeout_s
    )
