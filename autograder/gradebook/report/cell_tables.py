"""The tables that stand under a check cell in nbgrader's notebooks, escaped."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from autograder.collect.cluster_run import RunCheck
from autograder.course.assignment import ModuleSpec
from autograder.grade.outcome import Outcome
from autograder.gradebook.report.feedback import shown, test_rows

if TYPE_CHECKING:
    pass

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
        f"<tr{FORMGRADER_ROW[row.state]}><td {NOWRAP}>{row.earned:g} / {row.points:g}</td>"
        f"<td>{_text(row.name)}</td><td>{_text(row.message)}{_detail(row.detail)}</td></tr>"
        for row in ([] if untouched else test_rows(outcome, module))
    )
    message = f"<p>{_text(shown(outcome.message))}</p>" if outcome.message else ""
    message += "<p>It is as it was released: nothing is written yet.</p>" if untouched else ""
    head_row = f"<tr><th {NOWRAP}>of 100</th><th>test</th><th>what it says</th></tr>"
    table = f"<table {FORMGRADER_TABLE}>{head_row}{rows}</table>"
    # MathJax would turn a student's words into links; these classes keep it away.
    return (
        f'<div class="tex2jax_ignore mathjax_ignore"><p><strong>{_text(head)}</strong></p>'
        f"{message}{table if rows else ''}</div>"
    )


def _detail(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>" if text else ""


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
