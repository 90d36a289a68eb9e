"""Schedules of a pipeline: what each stage does with which microbatch, in which order.

M microbatches go through S stages and back; here S = 3, M = 4, and a backward pass takes twice as
long as a forward pass. A number is a microbatch, ``b`` its backward pass:

    GPipe  0 1 2 3 . . . . . . 0b  1b  2b  3b     1F1B  0 1 2 . . . . 0b  3 1b  . 2b  . 3b
           . 0 1 2 3 . . . 0b  1b  2b  3b  . .          . 0 1 . . 0b  2 1b  3 2b  . 3b  . .
           . . 0 1 2 3 0b  1b  2b  3b  . . . .          . . 0 0b  1 1b  2 2b  3 3b  . . . .

           all activations are kept                     at most S - stage are kept
           until the last forward pass

A schedule is a list of actions (``given/actions.py``), one for each stage. It says nothing of
transfers: a stage waits for what an action needs, and never for a send.

Rules for all three:

- On each stage every microbatch has (in every chunk) one ``Forward``, and after it one
  ``Backward``, or one ``BackwardInput`` and after it one ``BackwardWeight``. Microbatches are
  numbered 0 to M - 1, stages 0 to S - 1; M and S are at least 1, in any relation.
- The lists of all stages together can be run: no stages wait for one another for ever.
- A microbatch is *in flight* on a stage from its ``Forward`` to the end of its ``Backward``, or of
  its ``BackwardWeight``.
- Time: below, a forward pass through a whole stage takes ``tf`` and a backward pass ``tb``. Each
  half of a backward pass takes ``tb / 2``, and a pass through one of v chunks takes 1 / v of that.
  The bounds hold where messages are free. Where they take time, a step takes at most 1.02 times as
  long as under the published schedule. Up to 1.5 times a bound earns half the points.
"""

from given.actions import Backward, Forward


def gpipe(num_stages: int, num_microbatches: int, stage: int) -> list:
    """GPipe: all forward passes, then all backward passes.

    Args:
        num_stages, num_microbatches: S and M.
        stage: whose list is asked for, 0 to S - 1.

    Returns:
        A list of actions, chunk 0 in all. Every ``Forward`` stands before every backward action.

    In flight: at most M.
    Time: at most (M + S - 1)(tf + tb).

    Source: Huang et al., GPipe, NeurIPS 2019, section 2.3.
    """
    ### BEGIN SOLUTION
    microbatches = range(num_microbatches)
    return [Forward(m) for m in microbatches] + [Backward(m) for m in microbatches]
    ### END SOLUTION


def one_f_one_b(num_stages: int, num_microbatches: int, stage: int) -> list:
    """1F1B with a flush: after a short warm-up, forward and backward passes in turn.

    Args and returns: as those of ``gpipe``.

    In flight: at most min(M, S - stage); for S = 4 and M = 8 that is 4 on stage 0, 1 on stage 3.
    Time: at most (M + S - 1)(tf + tb).

    Source: Narayanan et al., PipeDream, SOSP 2019, section 3.2; with the flush: Narayanan et al.,
    Efficient Large-Scale Language Model Training, SC 2021, section 2.2.1.
    """
    ### BEGIN SOLUTION
    warm_up = min(num_stages - stage - 1, num_microbatches)
    actions = [Forward(m) for m in range(warm_up)]
    for m in range(warm_up, num_microbatches):
        actions += [Forward(m), Backward(m - warm_up)]
    return actions + [Backward(m) for m in range(num_microbatches - warm_up, num_microbatches)]
    ### END SOLUTION


def interleaved(num_stages: int, num_microbatches: int, stage: int, num_chunks: int) -> list:
    """Interleaved 1F1B: each stage has v smaller pieces of the model, so that bubbles are smaller.

    Piece ``chunk * S + stage`` of the model is chunk ``chunk`` on stage ``stage``: a microbatch
    goes through all stages v times. Microbatches take turns in groups of S: chunk 0 for S of
    them, then chunk 1 for the same ones, and so on; backward passes likewise, last chunk first.

    The warm-up has 2 (S - stage - 1) + (v - 1) S forward passes, or all v M if there are fewer.
    Then forward and backward passes take turns, as in 1F1B. For S = 2, M = 4 and v = 2 the warm-up
    of stage 0 is F0 F1 F0.1 F1.1 (``.1`` is chunk 1), and then come F2 B0.1 F3 B1.1.

    Args:
        num_stages, num_microbatches, stage: as above; M is a multiple of S.
        num_chunks: v, at least 1.

    Returns:
        A list of actions.

    Raises:
        ValueError: ``num_microbatches`` is not a multiple of ``num_stages``.

    In flight: at most min(v M, 2 (S - stage - 1) + (v - 1) S + 1), each chunk counted for itself.
    Time: at most (M + (S - 1) / v)(tf + tb).

    Source: Narayanan et al., SC 2021, section 2.2.2.
    """
    ### BEGIN SOLUTION
    if num_microbatches % num_stages:
        raise ValueError(
            f"num_microbatches ({num_microbatches}) must be a multiple of num_stages "
            f"({num_stages})."
        )
    total = num_microbatches * num_chunks

    def turn(k):
        """Microbatch and chunk of the k-th forward pass."""
        group, place = divmod(k, num_stages * num_chunks)
        chunk, within = divmod(place, num_stages)
        return group * num_stages + within, chunk

    forwards = [Forward(*turn(k)) for k in range(total)]
    backwards = [Backward(m, num_chunks - 1 - c) for m, c in map(turn, range(total))]
    warm_up = min(2 * (num_stages - stage - 1) + (num_chunks - 1) * num_stages, total)
    actions = forwards[:warm_up]
    for k in range(warm_up, total):
        actions += [forwards[k], backwards[k - warm_up]]
    return actions + backwards[total - warm_up :]
    ### END SOLUTION
