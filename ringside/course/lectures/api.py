"""The page of public names, docs/api.md, made from their signatures and docstrings.

python -m ringside.course.lectures api       writes the page; tests/test_house.py compares it

## ringside            a module: its first paragraph
### run                a function: signature, docstring
### Result             a class: signature, docstring
- `bytes_matrix()`     its methods and properties: the first sentence of each
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

COMMAND = "python -m ringside.course.lectures api"
WIDTH = 88  # characters of a signature that stands in one line
HEAD = f"""# The public names

`{COMMAND}` makes this page from the docstrings: change them, not the page.

These names keep their meaning from one release to the next; all others may change. A student uses
`ringside.run`, `Machine` and `replay`, beside the commands on [the student's page](student.md).
A writer of tests uses cases, suites, `ringside.checking` and the fixtures at the end of this page.
"""
# A module, and what the page shows of it; all of `__all__` where nothing is named.
PAGES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("ringside", "", ()),
    (
        "ringside.checking.cases",
        "",
        ("Case", "Vectors", "Formula", "assert_like", "cast", "machine_of"),
    ),
    ("ringside.checking.suite", "", ("Suite", "group", "hidden", "oracle", "right_run", "called")),
    ("ringside.checking", "", ()),
    ("ringside.checkpoint", "", ("CheckpointError", "listen", "seen", "asked", "save", "load")),
    (
        "ringside.checking.pytest_plugin",
        "The fixtures of pytest",
        ("ranks", "rng", "mpi", "gloo"),
    ),
)
NOT_SHOWN = {"load_ipython_extension"}  # `%load_ext ringside` calls it
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Communication|Source):(.*)")
LISTS = ("Args", "Attributes", "Raises")
ENTRY = re.compile(r"([\w.*, ]+): (.*)")


class _Plain(str):
    """An annotation that a signature shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def page() -> str:
    """The whole page, in Markdown."""
    parts = [HEAD]
    for name, title, names in PAGES:
        module = importlib.import_module(name)
        parts.append(f"## {title or f'`{name}`'}\n\n{summary(module)}\n")
        exports = names or tuple(n for n in sorted(module.__all__, key=str.lower))
        parts += [entry(module, export) for export in exports if export not in NOT_SHOWN]
    parts.append(ranks_of_a_test())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts))


def summary(module: ModuleType) -> str:
    """A module's docstring, for a page about it."""
    return "\n".join(markdown(inspect.getdoc(module) or ""))


def entry(module: ModuleType, name: str) -> str:
    """What the page says of one name."""
    value = getattr(module, name)
    value = getattr(value, "__wrapped__", value)  # a fixture's own function
    head = [f"### `{name}`", ""]
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return "\n".join([*head, f"The value `{value!r}`.", ""])
    if takes_arguments(value):
        head += ["```python", signature(name, value), "```", ""]
    lines = [*head, *markdown(inspect.getdoc(value) or ""), ""]
    if inspect.isclass(value):
        lines += [*members(value), ""]
    return "\n".join(lines).rstrip() + "\n"


def takes_arguments(value: Any) -> bool:
    """Whether a reader calls it: errors and results are made by the kit."""
    is_result = inspect.isclass(value) and "Attributes:" in (inspect.getdoc(value) or "")
    return not is_result and not (inspect.isclass(value) and issubclass(value, Exception))


def ranks_of_a_test() -> str:
    """The object that the fixture ``ranks`` gives."""
    plugin = importlib.import_module("ringside.checking.pytest_plugin")
    call = plugin.Ranks.call
    lines = ["### `ranks.call`", "", "```python", signature("ranks.call", call), "```", ""]
    return "\n".join([*lines, *markdown(inspect.getdoc(call) or "")]) + "\n"


def members(owner: type) -> Iterator[str]:
    """One line for each public method and property that the class itself defines."""
    for name, value in vars(owner).items():
        inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        text = inspect.getdoc(inner) or ""
        is_method = inspect.isfunction(inner)
        is_value = isinstance(inner, property) or type(inner).__name__ == "cached_property"
        if name.startswith("_") or not text or not (is_method or is_value):
            continue
        label = signature(name, inner, one_line=True) if is_method else name
        first = plain(" ".join(text.split("\n\n")[0].split()))
        yield f"- `{label}`: {first}"


def signature(name: str, value: Any, *, one_line: bool = False) -> str:
    """A call with its parameters, one a line where it is long; ``self`` is left out."""
    sig = inspect.signature(value)
    parameters = [
        parameter.replace(annotation=_annotation(parameter.annotation))
        for parameter in sig.parameters.values()
        if parameter.name not in ("self", "cls", "request")
    ]
    result = "" if inspect.isclass(value) else _annotation(sig.return_annotation)
    arrow = f" -> {result}" if result and result is not inspect.Parameter.empty else ""
    text = spelled(sig.replace(parameters=parameters, return_annotation=inspect.Parameter.empty))
    line = f"{name}{text}{arrow}"
    if one_line or len(line) <= WIDTH:
        return line
    rows, starred = [], False
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            rows.append("    *,")
            starred = True
        rows.append(f"    {spelled(parameter)},")
    return "\n".join([f"{name}(", *rows, f"){arrow}"])


def spelled(part: inspect.Signature | inspect.Parameter) -> str:
    """A signature or one of its parameters, with defaults as a program writes them."""
    text = str(part).replace("<factory>", "...").replace("= Ellipsis", "= ...")
    return re.sub(r"<(Kind\.\w+): \d+>", r"\1", text)


def _annotation(value: Any) -> Any:
    return _Plain(value) if isinstance(value, str) else value


def plain(text: str) -> str:
    """Markdown's code marks instead of reStructuredText's."""
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def markdown(text: str) -> Iterator[str]:
    """A docstring in Markdown: sections as lists; examples and what is indented as code."""
    section = ""
    for block in re.split(r"\n{2,}(?! )", text):  # what is indented stays with what is above it
        lines = block.splitlines()
        while lines:
            line = lines.pop(0)
            if match := SECTION.fullmatch(line):
                section = match[1]
                yield from (f"*{section}:*{plain(match[2])}", "")
            elif section and line.startswith("    "):
                yield _of_section(section, line)
            elif line.startswith(("    ", ">>>")):
                code = [line, *lines]
                yield from ("```text", *textwrap.dedent("\n".join(code)).splitlines(), "```")
                break
            else:
                yield plain(re.sub(r"::$", ":", line))
        section = ""
        yield ""


def _of_section(section: str, line: str) -> str:
    """A line of Args or Raises: an item of a list, or the rest of one."""
    match = ENTRY.fullmatch(line[4:])
    if section in LISTS and match and not line.startswith("     "):
        return f"- `{match[1]}`: {plain(match[2])}"
    return plain(f"  {line.strip()}" if section in LISTS else line.strip())
