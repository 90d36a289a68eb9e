"""The report of a verification as text: per module, and the kill table.

The kill table says how many of the wrong submissions a suite would catch that looks at values
only, as most graders do; it is ours without the other kinds of tests.
"""

from __future__ import annotations

from collections.abc import Sequence

from autograder.author.verify.verify import Finding, Report
from ringside.checking import cut

MAX_SAYS = 160  # characters of what a student reads


def table(report: Report) -> str:
    """The report as text: per module, and the kill table."""
    modules = list(dict.fromkeys(finding.module for finding in report.findings))
    wide = max([16, *(len(module) + 1 for module in modules)])
    lines = [
        f"{report.assignment}: {'as it must be' if report.ok else 'NOT as it must be'}, "
        f"{len(report.findings)} modules graded in {report.seconds:g} s",
        f"{'module':<{wide}}{'reference':>10}{'stub':>6}{'right':>8}{'wrong caught':>14}"
        + (f"{'by any test':>13}{'by values only':>16}" if report.whole else ""),
    ]
    for module in [*modules, "all"]:
        mine = [entry for entry in report.findings if module in (entry.module, "all")]
        by_kind = {
            kind: [entry for entry in mine if entry.kind == kind]
            for kind in ("reference", "stub", "right", "wrong")
        }
        wrong = by_kind["wrong"]
        cells = [_share(by_kind[kind], "ok") for kind in ("reference", "stub", "right", "wrong")]
        if report.whole:
            cells += [_share(wrong, "failed"), _share(wrong, "killed_by_values")]
        widths = (10, 6, 8, 14, 13, 16)
        row = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False))
        lines.append(f"{module:<{wide}}{row}")
    for finding in report.findings:
        if not finding.ok:
            lines.append(f"  {finding.kind}/{finding.name}: {finding.sentence}")
    lines += _points(report)
    return "\n".join(lines)


def _points(report: Report) -> list[str]:
    """What each wrong submission earned, beside what its author claims, and what it is told."""
    wrongs = [wrong for wrong in report.of("wrong") if wrong.whole]
    if not wrongs:
        return []
    wide = max(16, *(len(wrong.name) for wrong in wrongs))
    head = f"{'wrong submission':<{wide}}{'earns':>7}{'claimed':>11}{'public':>8}  what it is told"
    lines = [head]
    for wrong in wrongs:
        claimed = "{:g} to {:g}".format(*wrong.earns) if wrong.earns else "nothing"
        public = "" if wrong.public is None else f"{wrong.public:.0f}"
        says = cut(wrong.says.partition("\n")[0], MAX_SAYS)
        lines.append(f"{wrong.name:<{wide}}{wrong.score:>7.1f}{claimed:>11}{public:>8}  {says}")
    return lines


def _share(findings: Sequence[Finding], attribute: str) -> str:
    return f"{sum(bool(getattr(finding, attribute)) for finding in findings)}/{len(findings)}"
