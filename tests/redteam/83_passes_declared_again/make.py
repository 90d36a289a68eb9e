"""The reference, which computes everything before it launches anything, and says otherwise."""

from autograder.course.course import Course

PASSES = '''
import ringside


def _computed_first(model, grad_output):
    """The whole backward pass; what its layers said of it stands in a list, to be said again."""
    said = []
    announce, compute = ringside.announce, ringside.compute

    def announced(phase, array, number=None):
        said.append((phase, array, number, []))
        return announce(phase, array, number)

    def computed(**work):
        said[-1][3].append(work)

    ringside.announce, ringside.compute = announced, computed
    try:
        return model.backward(grad_output), said
    finally:
        ringside.announce, ringside.compute = announce, compute


def _say_again(said):
    phase, array, number, works = said.pop(0)
    ringside.announce(phase, array, number)
    for work in works:
        ringside.compute(**work)
'''


def make(target, release, outside):
    target.mkdir()
    source = (Course.here().solution("a05_ddp") / "overlap.py").read_text(encoding="utf-8")
    old = "    for layer in reversed(model.layers):\n        grad_output = layer.backward(grad_output)\n"
    new = (
        "    grad_output, said = _computed_first(model, grad_output)\n"
        "    for layer in reversed(model.layers):\n"
        "        if layer.params:\n"
        "            _say_again(said)\n"
    )
    assert source.count(old) == 1
    (target / "overlap.py").write_text(source.replace(old, new) + PASSES, encoding="utf-8")
