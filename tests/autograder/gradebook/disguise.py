"""Copies of a module in disguise, by a program: what somebody may do to hide where it is from.

1  other names for what the module assigns; comments and layout are gone
2  also: functions and neighbouring assignments in another order
3  also: dead statements, and ``x += y`` written out
4  also: ``for`` loops as ``while`` loops, ``if`` and ``else`` changed over, results named
"""

from __future__ import annotations

import ast
import random

DEAD = ("unused = 3", "assert True", "debug = None", "if False:\n    pass", "flag = not True")


def disguised(source: str, level: int, chance: random.Random) -> str:
    tree = ast.parse(source)
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _stores(n)}
    names = {name: f"v{at}_{chance.randrange(99)}" for at, name in enumerate(sorted(stored))}
    tree = _Rename(names).visit(tree)
    if level >= 2:
        _reorder(tree, chance)
    if level >= 3:
        tree = _Dead(chance).visit(_WriteOut().visit(tree))
    if level >= 4:
        tree = _Rewrite().visit(tree)
    text = ast.unparse(ast.fix_missing_locations(tree))
    compile(text, "disguised", "exec")
    return text


def _stores(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


class _Rename(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self.names.get(node.arg, node.arg)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.Nonlocal:
        node.names = [self.names.get(name, name) for name in node.names]
        return node


def _reorder(tree: ast.Module, chance: random.Random) -> None:
    parts = [each for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef)]
    others = [each for each in tree.body if each not in parts]
    chance.shuffle(parts)
    tree.body = [*others, *parts]
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            body = function.body
            for at in range(len(body) - 1):
                if _independent(body[at], body[at + 1]):
                    body[at], body[at + 1] = body[at + 1], body[at]


def _independent(one: ast.stmt, other: ast.stmt) -> bool:
    if not (isinstance(one, ast.Assign) and isinstance(other, ast.Assign)):
        return False
    ours, theirs = ([n for n in ast.walk(each) if isinstance(n, ast.Name)] for each in (one, other))
    stored = {name.id for name in (*ours, *theirs) if _stores(name)}
    return not stored & {name.id for name in ours} & {name.id for name in theirs}


class _WriteOut(ast.NodeTransformer):
    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name):
            return node
        left = ast.Name(node.target.id, ast.Load())
        return ast.Assign([node.target], ast.BinOp(left, node.op, node.value))


class _Dead(ast.NodeTransformer):
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        body: list[ast.stmt] = []
        for each in node.body:
            if self.chance.random() < 0.2:
                body += ast.parse(self.chance.choice(DEAD)).body
            body.append(each)
        node.body = body
        return node


class _Rewrite(ast.NodeTransformer):
    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        match node:
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), [end]), body, []) if not any(
                isinstance(each, ast.Continue) for each in ast.walk(node)
            ):
                test = ast.Compare(ast.Name(name, ast.Load()), [ast.Lt()], [end])
                step = ast.parse(f"{name} += 1").body
                return [*ast.parse(f"{name} = 0").body, ast.While(test, [*body, *step], [])]
        return node

    def visit_If(self, node: ast.If) -> ast.If:
        self.generic_visit(node)
        if not node.orelse or (len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)):
            return node
        return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)

    def visit_Return(self, node: ast.Return) -> ast.stmt | list[ast.stmt]:
        if node.value is None or isinstance(node.value, ast.Name):
            return node
        named = ast.Assign([ast.Name("answer", ast.Store())], node.value)
        return [named, ast.Return(ast.Name("answer", ast.Load()))]
