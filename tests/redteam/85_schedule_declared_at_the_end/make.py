"""The reference on another schedule than it was given; what it was given is declared at the end."""

from autograder.course.course import Course

PATCH = '''

import ringside as _ringside

_run, _announce, _compute = run, _ringside.announce, _ringside.compute
_LETTERS = {"Forward": "F", "Backward": "B", "BackwardInput": "I", "BackwardWeight": "W"}


def run(comm, pieces, actions, batch_sizes, inputs=None, targets=None):
    said = {}

    def announced(phase, array, number=None):
        said[phase] = [lambda: _announce(phase, array, number)]
        return _announce(phase, array, number)

    def computed(**work):
        said[work["phase"]].append(lambda: _compute(**work))

    forwards = [each for each in actions if isinstance(each, Forward)]
    others = [each for each in actions if not isinstance(each, Forward)]
    _ringside.announce, _ringside.compute = announced, computed
    try:
        value = _run(comm, pieces, forwards + others, batch_sizes, inputs, targets)
    finally:
        _ringside.announce, _ringside.compute = _announce, _compute
    for each in actions:
        letter = _LETTERS[type(each).__name__]
        piece = each.chunk * comm.Get_size() + comm.Get_rank()
        for say in said[f"{letter}{each.microbatch} of piece {piece}"]:
            say()
    return value
'''


def make(target, release, outside):
    target.mkdir()
    source = (Course.here().solution("a09_pipeline") / "stage.py").read_text(encoding="utf-8")
    (target / "stage.py").write_text(source + PATCH, encoding="utf-8")
