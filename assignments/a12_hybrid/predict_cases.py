"""What predict.py is compared with, and how: supplied for its tests.

call = [model(8, 2048, 16, 16), config(2, 2, 1, recompute="none")]
predict_near(ranks, "memory_bytes", [call], [1e9], 0.005)
"""

import math
import tomllib
from pathlib import Path

from ringside.checking import Verdict, one_line
from ringside.checking.formulas import evaluated
from ringside.checking.published import load


def model(num_layers, hidden, num_heads, batch, vocabulary=51200, sequence=2048):
    """A model as tests write it down: attributes by name."""
    return {
        "num_layers": num_layers,
        "hidden": hidden,
        "num_heads": num_heads,
        "batch": batch,
        "vocabulary": vocabulary,
        "sequence": sequence,
    }


def config(data=1, tensor=1, pipeline=1, microbatch_size=1, **others):
    """A configuration as tests write it down."""
    sizes = {"data": data, "tensor": tensor, "pipeline": pipeline}
    return {**sizes, "microbatch_size": microbatch_size, **others}


def megatron(table):
    """Rows of Megatron-LM's table 1 (``"scaling"``) or 2 (``"days"``), as dicts."""
    numbers = load("megatron_2021")[1][table]
    return [dict(zip(numbers["columns"], row, strict=True)) for row in numbers["rows"]]


def replays(path, table):
    """Rows of a ``replays.toml``: pairs of a call of ``step_s`` or ``sent_bytes``, and its answer.

    Args:
        path: of the file.
        table: ``"times"``, whose answers are seconds, or ``"bytes"``: bytes by axis.
    """
    with Path(path).open("rb") as file:
        told = tomllib.load(file)
    for row in told[table]["rows"]:
        of = dict(zip(told[table]["columns"], row, strict=True))
        sizes = [of[name] for name in ("layers", "hidden", "heads", "batch")]
        given = model(*sizes, of["vocabulary"], of["sequence"])
        axes = [of[name] for name in ("data", "tensor", "pipeline", "microbatch_size")]
        call = [given, config(*axes, recompute="none")]
        if table == "bytes":
            answer = {name: of[f"{name}_bytes"] for name in ("tensor", "pipeline", "data")}
            yield [*call, 4], answer
        else:
            yield [*call, f"{told['machine']},flop_per_s={of['flop_per_s']}", 4], of["step_s"]


def predict_shown(function, call):
    """How a sentence names a call, and the line that makes it."""

    def words(each):
        if isinstance(each, dict):
            return ", ".join(f"{name}={value}" for name, value in each.items())
        return str(each)

    typed = ", ".join(repr(each) for each in call)
    line = f"from callers import try_predict; try_predict('{function}', {typed})"
    return f"{function} of {'; '.join(map(words, call))}", f'python -c "{line}"'


def predict_asked(ranks, function, calls):
    """Per call: the answer, how it is named, and its line."""
    target = f"predict:{function}"

    def shown(call):
        return predict_shown(function, call)

    answers = evaluated(ranks, "callers:predict_numbers", target, calls, shown)
    for call, answer in zip(calls, answers, strict=True):
        yield (answer, *predict_shown(function, call))


def number(answer, where, line):
    """The answer, which must be one finite number."""
    answer = answer.item() if hasattr(answer, "item") and not getattr(answer, "ndim", 0) else answer
    if type(answer) not in (int, float) or not math.isfinite(answer):
        said = one_line(repr(answer), 80)
        raise Verdict(f"{where} is {said}; it must be a finite number.", reproduce=line)
    return answer


def predict_near(ranks, function, calls, rights, tolerance, beside="", key=None):
    """Every answer is at most so far from the right one, relatively.

    Args:
        tolerance: 0.05: 5 % more or less.
        beside: what the sentence says of the right answer.
        key: of an answer that is a dict.
    """
    asked = predict_asked(ranks, function, calls)
    for (answer, where, line), right in zip(asked, rights, strict=True):
        if key is not None:
            if not isinstance(answer, dict) or key not in answer:
                said = one_line(repr(answer), 80)
                raise Verdict(f"{where} is {said}; it must be a dict with {key!r}.", reproduce=line)
            answer, where = answer[key], f"{key} of {where}"
        answer = number(answer, where, line)
        if abs(answer - right) > tolerance * abs(right) + 1e-12 * (tolerance > 0):
            exact = tolerance <= 1e-6
            apart = f", {answer / right - 1:+.1%}" if right and not exact else ""
            allowed = "" if exact else f"; {100 * tolerance:.3g} % more or less are allowed"
            raise Verdict(
                f"{where} is {answer:.12g}; it must be {right:.12g}{beside}{apart}{allowed}.",
                reproduce=line,
            )
