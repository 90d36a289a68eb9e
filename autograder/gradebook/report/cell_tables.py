"""The tables that stand under a check cell in nbgrader's notebooks, escaped."""

from __future__ import annotations

import html

from autograder.collect.cluster_run import RunCheck
from autograder.course.assignment import ModuleSpec
from autograder.grade.outcome import Outcome
from autograder.gradebook.report.feedback import TestRow, requirement_rows, shown
from ringside.checking.requirements import held_back

# The formgrader has Bootstrap's style sheet, and none of its own for tables in outputs.
FORMGRADER_TABLE = 'class="table table-condensed" style="width: auto"'
FORMGRADER_ROW = {"full": "", "part": ' class="warning"', "none": ' class="danger"'}
NOWRAP = 'style="white-space: nowrap"'


def module_table(module: ModuleSpec, outcome: Outcome) -> str:
    """The table that stands under a check cell in nbgrader's notebooks, escaped."""
    points = outcome.points(module)
    head = f"{module.filename}: {points:g} of {module.weight:g} points"
    if module.extra:
        head += " (extra credit)"
    untouched = module.name in outcome.untouched and not points
    rows = "".join(
        f"<tr{FORMGRADER_ROW[row.state]}>"
        f"<td {NOWRAP}>{round(row.earned, 1):g} / {round(row.points, 1):g}</td>"
        f"<td>{_text(row.says)}</td><td>{''.join(map(_lacking, row.tests))}</td></tr>"
        for row in ([] if untouched else requirement_rows(outcome, module))
    )
    result = outcome.results.get(module.name)
    if result and (sentence := held_back(result.requirements, result.tests)):
        rows += f"<tr{FORMGRADER_ROW['none']}><td></td><td colspan=2>{_text(sentence)}</td></tr>"
    message = f"<p>{_text(shown(outcome.message))}</p>" if outcome.message else ""
    message += "<p>It is as it was released: nothing is written yet.</p>" if untouched else ""
    head_row = (
        f"<tr><th {NOWRAP}>of 100</th><th>what is asked for</th><th>what its tests say</th></tr>"
    )
    table = f"<table {FORMGRADER_TABLE}>{head_row}{rows}</table>"
    # MathJax would turn a student's words into links; these classes keep it away.
    return (
        f'<div class="tex2jax_ignore mathjax_ignore"><p><strong>{_text(head)}</strong></p>'
        f"{message}{table if rows else ''}</div>"
    )


def _lacking(test: TestRow) -> str:
    """What a test says that lacks points; nothing of others."""
    if test.state == "full" and not test.waived:
        return ""
    detail = f"<pre>{html.escape(test.detail)}</pre>" if test.detail else ""
    return f"<p>{_text(test.name)}: {_text(test.message)}</p>{detail}"


def run_table(run: RunCheck) -> str:
    """The same for the cell of a cluster run."""
    rows = "".join(
        f"<tr{'' if ok else FORMGRADER_ROW['none']}><td>{'yes' if ok else 'no'}</td>"
        f"<td>{_text(shown(sentence, 400))}</td></tr>"
        for ok, sentence in run.findings
    )
    points = "to be graded by hand," if run.waits else f"{run.points:g}"
    head = f"run.json of {run.module}.py: {points} of {run.max_points:g} points"
    return (
        f'<div class="tex2jax_ignore mathjax_ignore"><p><strong>{_text(head)}</strong></p>'
        f"<table {FORMGRADER_TABLE}>{rows}</table></div>"
    )


def _text(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")
