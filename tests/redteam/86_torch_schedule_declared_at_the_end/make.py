"""The reference on another schedule than it was given; what it was given is declared at the end."""

from autograder.course.course import Course

PATCH = '''

import ringside as _ringside

_run, _announce, _compute = run, _ringside.announce, _ringside.compute


def run(group, modules, actions, batch_sizes, inputs=None, targets=None, recompute=False):
    said = []

    def announced(phase, array, number=None):
        said.append([phase, lambda: _announce(phase, array, number)])
        return _announce(phase, array, number)

    def computed(**work):
        said[-1].append(lambda: _compute(**work))

    forwards = [each for each in actions if isinstance(each, Forward)]
    others = [each for each in actions if not isinstance(each, Forward)]
    _ringside.announce, _ringside.compute = announced, computed
    try:
        value = _run(group, modules, forwards + others, batch_sizes, inputs, targets, recompute)
    finally:
        _ringside.announce, _ringside.compute = _announce, _compute
    for each in actions:
        piece = each.chunk * dist.get_world_size(group) + dist.get_rank(group)
        forward = f"F of piece {piece}"
        back = [forward, f"B of piece {piece}"] if recompute else [f"B of piece {piece}"]
        for phase in [forward] if isinstance(each, Forward) else back:
            words = next(words for words in said if words[0] == phase)
            said.remove(words)
            for say in words[1:]:
                say()
    return value
'''


def make(target, release, outside):
    target.mkdir()
    source = (Course.here().solution("a09_pipeline") / "pipeline_torch.py").read_text(encoding="utf-8")
    (target / "pipeline_torch.py").write_text(source + PATCH, encoding="utf-8")
