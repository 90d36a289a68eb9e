"""Runs one test of torch's own distributed suite on a rank; both zygote and ranks import this.

The suite decides by environment variables at import which of its tests a backend gets. It is told
``gloo``, so that every test that gloo gets on CPUs is tried; ranks speak to our network all the
same, whatever backend is asked for.
"""

# ruff: noqa: E402 - the suite reads the environment when it is imported

import contextlib
import importlib.util
import io
import os
import sys
import types
import unittest
import warnings

LARGEST = 8  # what the suite is told at import; every run has its own size

if "torch" not in sys.modules:  # in the zygote; ranks have their own numbers
    os.environ.update(BACKEND="gloo", WORLD_SIZE=str(LARGEST), TEMP_DIR="/nonexistent")

# torch's test classes derive from a class of this package; the tests run here use nothing of it.
if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase

import ringside.pytorch.preload  # noqa: F401, I001
import torch
import torch.distributed as dist
import torch.testing._internal.common_utils as common
from torch.testing._internal.common_distributed import TEST_SKIPS
from torch.testing._internal.distributed import distributed_test

SKIPS = {skip.exit_code: skip.message for skip in TEST_SKIPS.values()}


class OnRingside(distributed_test.DistributedTest._DistTestBase, common.TestCase):
    """torch's tests, with our barrier in place of one that works by files."""

    @property
    def world_size(self):
        return dist.get_world_size()

    @property
    def rank(self):
        return dist.get_rank()

    @property
    def init_method(self):
        return "env://"

    @property
    def destroy_pg_upon_exit(self):
        return False

    def _barrier(self, *args, **kwargs):
        dist.barrier()


class _Barrier:
    sync = staticmethod(lambda *args, **kwargs: dist.barrier())
    init = sync


distributed_test.Barrier = _Barrier


class _FileInMemory(io.BytesIO):
    """A temporary file for a rank, which may not write any: what is saved by name is loaded."""

    @property
    def name(self):
        self.seek(0)
        return self


distributed_test.tempfile = types.SimpleNamespace(
    NamedTemporaryFile=_FileInMemory, TemporaryFile=_FileInMemory
)


def names():
    """Every test's name."""
    return sorted(name for name in dir(OnRingside) if name.startswith("test_"))


def listed(group):
    return names()


def run(group, name):
    """Run one test. Returns ``("passed", "")``, ``("skipped", reason)`` or ``("failed", text)``."""
    dist.init_process_group("gloo")  # the run has made the group; this takes it over
    warnings.simplefilter("ignore")
    test = OnRingside(name)
    torch.manual_seed(0)
    try:
        with contextlib.suppress(AttributeError):
            test.setUp()
        getattr(test, name)()
    except unittest.SkipTest as skip:
        return "skipped", str(skip)
    except SystemExit as end:
        if end.code in SKIPS:
            return "skipped", SKIPS[end.code]
        raise
    return "passed", ""
