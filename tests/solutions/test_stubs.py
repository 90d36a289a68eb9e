"""What a student's editor knows of a stub: types, so that it completes after ``comm.``."""

import ast

import jedi
import pytest

from autograder.author.verify.verify import stub
from autograder.course import assignment as plans
from autograder.course.course import Course

COURSE = Course.here()
TYPES = {"comm": "MPI.Comm", "group": "dist.ProcessGroup"}


def stubs() -> list[tuple[str, str]]:
    return [
        (f"{name}/{module.name}", stub((COURSE.solution(name) / f"{module.name}.py").read_text()))
        for name in plans.known(COURSE)
        for module in plans.load(name, COURSE).modules
    ]


def test_every_function_that_gets_ranks_says_their_type() -> None:
    ranks = [
        (name, node.name, argument.arg, argument.annotation)
        for name, source in stubs()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if argument.arg in TYPES
    ]
    assert len({name for name, *_ in ranks}) > 40
    wrong = [
        f"{name}: {function}({argument}: {annotation and ast.unparse(annotation)})"
        for name, function, argument, annotation in ranks
        if annotation is None or ast.unparse(annotation) != TYPES[argument]
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("module", "argument", "offered"),
    [
        ("a03_allreduce/ring", "comm", {"Send", "Recv", "Sendrecv", "Get_rank"}),
        ("a03_allreduce/ring_torch", "group", {"rank", "size"}),
    ],
)
def test_an_editor_completes_the_ranks_of_a_stub(
    module: str, argument: str, offered: set[str]
) -> None:
    source = dict(stubs())[module]
    gap = "    raise NotImplementedError()"
    assert gap in source
    written = source.replace(gap, f"    {argument}.", 1)
    line = written.splitlines().index(f"    {argument}.") + 1
    names = {each.name for each in jedi.Script(written).complete(line, len(argument) + 5)}
    assert offered <= names
