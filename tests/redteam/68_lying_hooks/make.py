"""The reference's wrapper, on a torch.distributed whose all-reduce does half of its work."""

from autograder.course.course import Course

PATCH = '''

import torch.distributed as _dist


class _Done:
    def wait(self, *arguments):
        return True

    is_completed = wait


_true = _dist.all_reduce


def _half(tensor, *arguments, **named):
    flat = tensor.reshape(-1)
    _true(flat[: len(flat) // 2], *arguments, **{**named, "async_op": False})
    flat[len(flat) // 2 :] *= _dist.get_world_size(named.get("group"))
    return _Done()


_dist.all_reduce = _half
'''


def make(target, release, outside):
    target.mkdir()
    source = (Course.here().solution("a05_ddp") / "ddp_torch.py").read_text(encoding="utf-8")
    (target / "ddp_torch.py").write_text(source + PATCH, encoding="utf-8")
