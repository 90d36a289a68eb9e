"""Runs the cases of one module of mpi4py's own test suite, as one rank of several.

Copied beside the suite's modules and called there. Each rank prints a line before and after every
case, for what it returns is lost where the network ends the run::

    @@{"case": 3, "name": "TestStatus.testGetCount"}
    @@{"case": 3, "outcome": "passed", "detail": ""}

A case is over when it is over on all ranks. After one that isn't passed or skipped the call ends,
so that the next one begins without messages that this one may have left.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import traceback
import unittest
import warnings

from ringside.mpi.unsupported import NotOfferedError

MARK = "@@"
PASSED, FAILED, SKIPPED, NOT_OFFERED = "passed", "failed", "skipped", "not offered"
_ORDER = [PASSED, SKIPPED, NOT_OFFERED, FAILED]


def run(comm, module_name, first):
    """Run the cases of a module from number ``first`` on."""
    sys.path[:0] = [] if "." in sys.path else ["."]
    apart = comm.Dup()
    try:
        cases = list(_flat(_load(module_name)))
    except BaseException as error:
        _say(comm, case=first, name="(import)")
        outcome, detail = _judge(error)
        _say(comm, case=first, outcome=outcome, detail=detail, cases=0)
        return
    for number, case in enumerate(cases):
        if number < first:
            continue
        _say(comm, case=number, name=".".join(case.id().split(".")[-2:]), cases=len(cases))
        outcome, detail = _outcome(case)
        _say(comm, case=number, outcome=outcome, detail=detail)
        if {PASSED, SKIPPED} < {*apart.allgather(outcome), PASSED, SKIPPED}:
            return
    _say(comm, case=len(cases), cases=len(cases))


def _load(module_name):
    """The cases of the suite's module, which see names that aren't offered as errors.

    Arrays on a GPU are left out of the loops over kinds of arrays: they would fail every case.
    """
    ours = importlib.import_module("mpiunittest")
    ours.TestCase.catchNotImplementedError = lambda *_: contextlib.nullcontext()
    kinds = importlib.import_module("arrayimpl")
    kinds.ArrayBackends[:] = [
        kind for kind in kinds.ArrayBackends if not issubclass(kind, kinds.BaseFakeGPUArray)
    ]
    _asked.clear()
    with _placeholders():
        module = importlib.import_module(module_name)
    _asked_at_import.setdefault(module_name, list(_asked))
    return unittest.defaultTestLoader.loadTestsFromModule(module)


@contextlib.contextmanager
def _placeholders():
    """While a module is imported: a name that isn't offered is an error only when it is used.

    Otherwise one constant in one class would put the module's other cases out of scope.
    """
    kind = type(importlib.import_module("mpi4py.MPI"))
    strict = kind.__getattr__

    def lenient(module, name):
        try:
            return strict(module, name)
        except NotOfferedError as error:
            _asked.pop()
            return _placeholder(name, str(error))

    kind.__getattr__ = lenient
    try:
        yield
    finally:
        kind.__getattr__ = strict


def _placeholder(name, message):
    def refuse(*_args, **_options):
        raise NotOfferedError(message)

    refused = dict.fromkeys(("__getattr__", "__eq__", "__bool__", "__call__"), refuse)
    kind = type("Placeholder", (type,), {**refused, "__hash__": type.__hash__})
    made = type.__call__(kind, name, (), {**refused, "__hash__": refuse})
    return object.__new__(made) if name.isupper() else made


def _flat(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _flat(item)
        else:
            yield item


class _Collected(unittest.TestResult):
    """The worst outcome of one case and its subtests."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def addSuccess(self, test):
        self.seen.append((PASSED, ""))

    def addSkip(self, test, reason):
        self.seen.append((SKIPPED, reason))

    def addError(self, test, err):
        self.seen.append(_judge(err[1]))

    addFailure = addExpectedFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)

    def addUnexpectedSuccess(self, test):
        self.seen.append((FAILED, "expected to fail"))


_asked = []  # names that were asked for and aren't offered, also where a case caught the error
_asked_at_import = {}  # by module: a class of cases may be skipped for them


def _record_names():
    plain = NotOfferedError.__init__

    def record(error, *args):
        plain(error, *args)
        _asked.append(str(error))

    NotOfferedError.__init__ = record


_record_names()


def _outcome(case):
    _asked.clear()
    result = _Collected()
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        unittest.TestSuite([case]).run(result)
    worst = max(result.seen, key=lambda seen: _ORDER.index(seen[0]), default=(PASSED, ""))
    names = _asked or _asked_at_import[type(case).__module__]
    return (NOT_OFFERED, names[0]) if worst[0] == SKIPPED and names else worst


def _judge(error):
    if _not_offered(error):
        return NOT_OFFERED, str(error)
    if isinstance(error, OSError) and "No usable temporary directory" in str(error):
        return NOT_OFFERED, "writing a file is not offered: ranks may not"
    places = traceback.extract_tb(error.__traceback__)
    place = next(
        (f"{p.filename.split('/')[-1]}:{p.lineno}" for p in places if "/test_" in p.filename), ""
    )
    return FAILED, f"{place} {type(error).__name__}: {str(error)[:300]}".replace("\n", " ")


def _not_offered(error):
    return isinstance(error, NotOfferedError)


def _say(comm, **record):
    print(MARK + json.dumps(record), flush=True)
