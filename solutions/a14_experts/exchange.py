r"""Tokens go to their experts' ranks and come back: an all-to-all with uneven counts.

Each of p ranks has tokens of its own and some of the E experts. A token's expert may be anywhere:

    rank 0: tokens for expert    0  3  3  1          experts 0 1 on rank 0, experts 2 3 on rank 1
    rank 1: tokens for expert    2  0                rank 0 sends 2 rows to rank 1 and gets 1

    1. counts     each rank tells every other one how many rows come for each expert there
    2. rows       sorted by expert, so that an expert's rows lie together
    3. experts    each computes its rows
    4. answers    back by the same way, and into the order in which the rows stood

Nobody knows before step 1 how much comes. A rank may have no tokens, and an expert may get no rows.
The backward pass sends gradients along the same ways; it knows the counts already.

Rules:

- Expert e lives on rank ``owners(num_experts, p)[e]`` (``given/experts.py``). There may be fewer
  experts than ranks.
- The library's ``Alltoall`` and ``Alltoallv`` may be used, and messages of your own. The lower-case
  forms, which pickle, may not.
- An *exchange* is one such collective, or at most one message to each other rank.
- What a rank sends to itself is free, also in an ``Alltoallv``.
- Time: with many rows on two nodes of ``zaratan``, both passes take at most 1.6 times what the rows
  between the nodes take through the nodes' ports; half the points up to 2.2 times.

Source: Lepikhin et al. 2020, "GShard"; Rajbhandari et al. 2022, "DeepSpeed-MoE".
"""

import numpy as np
from given.experts import Expert, Routing, owners
from mpi4py import MPI


def dispatch(comm: MPI.Comm, rows: np.ndarray, numbers: np.ndarray, num_experts: int) -> tuple:
    """Send each row to its expert's rank.

    Args:
        rows: shape (n, d), C-contiguous; n may differ from rank to rank, and be 0.
        numbers: shape (n,), int: each row's expert.
        num_experts: E, of all ranks together.

    Returns:
        ``(received, way)``: a list with one array for each expert of this rank, shape (n_e, d) and
        ``rows``' dtype, first the rows of rank 0, in the order in which they stood there, then
        those of rank 1, ...; and what ``send_back`` and ``send_again`` need.

    - Bytes: ``d * itemsize`` for a row, which goes to its expert's rank, once; and at most 8 for
      the count of each expert of another rank.
    - At most two exchanges: one of counts, and one of rows.
    """
    ### BEGIN SOLUTION
    p = comm.Get_size()
    owner = owners(num_experts, p)
    counts = np.bincount(numbers, minlength=num_experts)
    # experts of each rank
    theirs = np.bincount(owner, minlength=p)
    mine = theirs[comm.Get_rank()]
    # rows of each rank for each expert here
    coming = np.empty((p, mine), counts.dtype)
    comm.Alltoallv([counts, theirs], [coming, np.full(p, mine)])
    sent = np.bincount(owner, weights=counts, minlength=p).astype(int)
    way = np.argsort(numbers, kind="stable"), sent, coming, rows[:0]
    return send_again(comm, rows, way), way
    ### END SOLUTION


def send_again(comm: MPI.Comm, rows: np.ndarray, way) -> list[np.ndarray]:
    """Return ``received`` as ``dispatch`` does with the same numbers, without counts. One exchange.

    The backward pass sends its gradients with it.
    """
    ### BEGIN SOLUTION
    order, sent, coming, _ = way
    here = _exchange(comm, rows[order], sent, coming.sum(axis=1))
    # by rank, then by expert
    pieces = np.split(here, np.cumsum(coming)[:-1])
    mine = coming.shape[1]
    return [np.concatenate(pieces[e::mine]) for e in range(mine)]


def _exchange(comm, rows, sent, came):
    """Send so many rows to each rank; return those that came, in the order of the ranks."""
    d = rows.shape[1]
    here = np.empty((came.sum(), d), rows.dtype)
    comm.Alltoallv([np.ascontiguousarray(rows), sent * d], [here, came * d])
    return here
    ### END SOLUTION


def send_back(comm: MPI.Comm, answers: list[np.ndarray], way) -> np.ndarray:
    """Send the experts' answers, arrays like those in ``received``, back. One exchange.

    Returns:
        Shape (n, d), rows in the order of ``dispatch``'s ``rows``.
    """
    ### BEGIN SOLUTION
    order, sent, coming, none = way
    parts = [np.split(a, np.cumsum(coming[:, e])[:-1]) for e, a in enumerate(answers)]
    # by rank, then by expert
    there = [part for one in zip(*parts, strict=True) for part in one]
    back = _exchange(comm, np.concatenate([none, *there]), coming.sum(axis=1), sent)
    rows = np.empty_like(back)
    rows[order] = back
    return rows
    ### END SOLUTION


def forward(
    comm: MPI.Comm, experts: list[Expert], x: np.ndarray, routing: Routing, num_experts: int
) -> tuple:
    """The layer's forward pass: every token's weighted answers.

    Args:
        experts: this rank's, a list of ``Expert``.
        x: this rank's tokens, shape (T, d); T may differ from rank to rank, and be 0.
        routing: of this rank's tokens, a ``Routing``. What isn't kept isn't sent.

    Returns:
        ``(y, saved)``: y of shape (T, d), and what ``backward`` needs. One ``dispatch``, one
        ``send_back``, and one ``Expert.forward`` for each expert.
    """
    ### BEGIN SOLUTION
    token, choice = np.nonzero(routing.kept)
    received, way = dispatch(comm, x[token], routing.experts[token, choice], num_experts)
    done = [expert.forward(rows) for expert, rows in zip(experts, received, strict=True)]
    answers = send_back(comm, [answer for answer, _ in done], way)
    y = np.zeros_like(x)
    np.add.at(y, token, routing.weights[token, choice][:, None] * answers)
    return y, (routing, way, [saved for _, saved in done], answers)
    ### END SOLUTION


def backward(comm: MPI.Comm, experts: list[Expert], saved, dy: np.ndarray) -> tuple:
    """The layer's backward pass.

    Args:
        experts, saved: as ``forward`` had and returned them.
        dy: shape (T, d), the gradient of y.

    Returns:
        ``(dx, dweights, gradients)``: dx of shape (T, d); ``dweights`` of shape (T, k), 0 where a
        token wasn't sent; and a list with ``(dw1, dw2)`` of each expert of this rank, summed over
        all ranks' tokens, zeros where it got no rows. One ``send_again`` and one ``send_back``: the
        answers are there already.
    """
    ### BEGIN SOLUTION
    routing, way, states, answers = saved
    token, choice = np.nonzero(routing.kept)
    dweights = np.zeros_like(routing.weights)
    dweights[token, choice] = (answers * dy[token]).sum(axis=1)
    received = send_again(comm, routing.weights[token, choice][:, None] * dy[token], way)
    done = [e.backward(s, rows) for e, s, rows in zip(experts, states, received, strict=True)]
    dx = np.zeros_like(dy)
    np.add.at(dx, token, send_back(comm, [one for one, _ in done], way))
    return dx, dweights, [gradient for _, gradient in done]
    ### END SOLUTION


def measured_layer(
    comm: MPI.Comm,
    w1: np.ndarray,
    w2: np.ndarray,
    num_experts: int,
    x: np.ndarray,
    experts: np.ndarray,
    weights: np.ndarray,
    kept: np.ndarray,
    dy: np.ndarray,
):
    """Both passes as the run on a cluster measures them; w1, w2: of its own experts. Supplied."""
    own = [Expert(*each) for each in zip(w1, w2, strict=True)]
    y, saved = forward(comm, own, x, Routing(experts, weights, kept), num_experts)
    return (y, *backward(comm, own, saved, dy)[:2])
