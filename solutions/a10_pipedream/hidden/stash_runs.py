"""Trainings with ``stash``, and how long they may take. Each run's values are checked first."""

from pathlib import Path

from ringside import replay
from ringside.checking import Verdict, assert_ran, buffered
from ringside.checking.examples import beside
from ringside.factors import Factors
from ringside.trace import Kind, Op, Trace

SOLUTION = Path(__file__).resolve().parents[1]
examples = beside(SOLUTION / "stash.py")
stash_case = examples.cases.stash_case
PS = 10**12


def trained(ranks, rng, case, observed=True, **options):
    """``stash.train``, compared with the recursion in one process.

    Passes are announced unless it is said otherwise: a rank that computes another stage's passes
    gets other factors for them, and so other values.
    """
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    if observed:
        options["factors"] = Factors.drawn(rng)
    arguments = case.arguments_of_ranks()
    result = ranks.call("callers:stash_trained", world_size, arguments, **options)
    assert_ran(result, case)
    check(result, case)
    moved = sum(record.nbytes for record in result.collectives)
    if moved > 64 * (1 + len(case.batch_sizes)):
        raise (
            case.seen_in(result)
            .asking("own")
            .fail(
                f"{moved} bytes went through the library's collectives; stages must send their "
                "activations and gradients themselves."
            )
        )
    return result


def check(result, case):
    """The values of a run."""
    seen, right = case.seen_in(result), case.right(result.factors)
    for stage, value in enumerate(result.values):
        examples.stash_check_values(value, stage, right, seen)


def on_real_ranks(mpi, cases):
    """The same under mpiexec."""
    jobs = [("callers:stash_trained", c.world_size, c.arguments_of_ranks()) for c in cases]
    for case, result in zip(cases, mpi.call_all(jobs), strict=True):
        try:
            assert_ran(result, case)
            right = case.right()
            for stage, value in enumerate(result.values):
                examples.stash_check_values(value, stage, right, case)
        except Verdict as verdict:
            raise Verdict(
                f"under mpiexec: {verdict.sentence}",
                reproduce=case.real_line,
                detail=verdict.detail,
            ) from None


def ideal(num_stages, num_minibatches, costs, nbytes, machine):
    """What the network would record of stages that never wait for a send.

    Each posts the receive for its next pass before it computes the present one.
    """
    numbers, stages = {}, []
    for stage in range(num_stages):
        words = examples.stash_passes(num_stages, num_minibatches, stage)
        ops, posted = [], {}
        for place, word in enumerate(words):
            for ahead in words[place : place + 2]:
                source = stage - 1 if ahead[0] == "F" else stage + 1
                if ahead not in posted and 0 <= source < num_stages:
                    posted[ahead] = len(ops)
                    message = numbers.setdefault((source, ahead), len(numbers))
                    ops.append(
                        Op(
                            Kind.IRECV, source, 0, nbytes, request=len(ops), message=message,
                            detail=(source, 0),
                        )
                    )  # fmt: skip
            if word in posted:
                ops.append(Op(Kind.WAIT, detail=(posted[word],)))
            seconds = costs[word[0] == "B"]
            ops.append(Op(Kind.COMPUTE, detail=(0.0, 0.0, round(seconds * PS), word)))
            dest = stage + 1 if word[0] == "F" else stage - 1
            if 0 <= dest < num_stages:
                message = numbers.setdefault((stage, word), len(numbers))
                ops.append(
                    Op(
                        Kind.ISEND, dest, 0, nbytes, request=len(ops), message=message, detail=(0,)
                    )
                )  # fmt: skip
        ops.append(Op(Kind.WAIT, detail=tuple(op.request for op in ops if op.kind == Kind.ISEND)))
        stages.append(ops)
    return replay(Trace(num_stages, stages), machine).makespan_s
