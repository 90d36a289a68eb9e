"""The reference, which computes all layers before it sends anything, and says otherwise."""

from autograder.course.course import Course

PASSES = '''
import ringside


class _Said:
    """A layer whose pass was made before; it is announced and declared again."""

    def __init__(self, layer, grad_output):
        self.size, self._said = layer.size, []
        announce, compute = ringside.announce, ringside.compute

        def announced(*given):
            self._said.append((announce, given, {}))
            return announce(*given)

        def computed(**work):
            self._said.append((compute, (), work))

        ringside.announce, ringside.compute = announced, computed
        try:
            self.result = layer.backward(grad_output)
        finally:
            ringside.announce, ringside.compute = announce, compute

    def backward(self, grad_output):
        for function, given, work in self._said:
            function(*given, **work)
        return self.result


def _computed_first(layers, grad_output):
    said = []
    for layer in reversed(layers):
        said.insert(0, _Said(layer, grad_output))
        grad_output = said[0].result[0]
    return said
'''


def make(target, release, outside):
    target.mkdir()
    source = (Course.here().solution("a07_sharding") / "zero2.py").read_text(encoding="utf-8")
    old = "    for layer in reversed(layers):\n"
    assert source.count(old) == 1
    new = "    layers = _computed_first(layers, grad_output)\n" + old
    (target / "zero2.py").write_text(source.replace(old, new) + PASSES, encoding="utf-8")
