"""The reference without hooks: what the layers said of the backward pass is said again in finish."""

from autograder.course.course import Course

PATCH = '''

import ringside as _ringside

_announce, _compute = _ringside.announce, _ringside.compute
_said = []  # per layer, how to say it again


def _announced(phase, array, number=None):
    def again():
        if phase.startswith("backward"):
            _announce(phase, array, number)

    _said.append(again)
    return _announce(phase, array, number)


def _computed(**work):
    if not str(work.get("phase", "")).startswith("backward"):
        _compute(**work)
        return
    before = _said.pop()

    def again():
        before()
        _compute(**work)

    _said.append(again)


_ringside.announce, _ringside.compute = _announced, _computed


def _begin(self):
    _said.clear()
    self.works = []
    self.missing = [set(bucket) for bucket in self.buckets]


def _ready(self, param):
    """Nothing: the reference launches from here."""


def _launch(self):
    if not self.missing or any(self.missing):
        return
    for number, flat in enumerate(self.flats):
        layers = max(1, len(_said) // (len(self.flats) - number))
        for again in _said[:layers]:
            again()
        del _said[:layers]
        self.works.append(dist.all_reduce(flat, group=self.group, async_op=True))
    for again in _said:
        again()


DDP._begin, DDP._ready, DDP._launch = _begin, _ready, _launch
'''


def make(target, release, outside):
    target.mkdir()
    source = (Course.here().solution("a05_ddp") / "ddp_torch.py").read_text(encoding="utf-8")
    (target / "ddp_torch.py").write_text(source + PATCH, encoding="utf-8")
