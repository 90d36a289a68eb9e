"""The reference with one minibatch in flight; one forward, one backward is declared at the end."""

from autograder.course.course import Course

PATCH = '''

import ringside as _ringside

_train, _order, _announce, _compute = train, _passes, _ringside.announce, _ringside.compute


def _passes(num_minibatches, most):
    return _order(num_minibatches, 1)


def train(comm, piece, params, batch_sizes, lr, inputs=None, targets=None, *, vertical_sync=False):
    said = {}

    def announced(phase, array, number=None):
        said[phase] = [lambda: _announce(phase, array, number)]
        return _announce(phase, array, number)

    def computed(**work):
        said[work["phase"]].append(lambda: _compute(**work))

    _ringside.announce, _ringside.compute = announced, computed
    try:
        value = _train(
            comm, piece, params, batch_sizes, lr, inputs, targets, vertical_sync=vertical_sync
        )
    finally:
        _ringside.announce, _ringside.compute = _announce, _compute
    for kind, minibatch in _order(len(batch_sizes), comm.Get_size() - comm.Get_rank()):
        for say in said[f"{kind}{minibatch} of piece {piece.number}"]:
            say()
    return value
'''


def make(target, release, outside):
    target.mkdir()
    source = (Course.here().solution("a10_pipedream") / "stash.py").read_text(encoding="utf-8")
    (target / "stash.py").write_text(source + PATCH, encoding="utf-8")
