"""The line that a failure prints, typed: it runs what the suite ran."""

import shlex

from ringside.commands import cli


def output_of(line, solution, capsys):
    """What `ringside run FILE:FUNCTION ...` prints, with the file in the folder `solution`."""
    words = shlex.split(line)[1:]
    words[1] = str(solution / words[1])
    assert cli.main(words) == 0
    return capsys.readouterr().out


def assert_runs(case, solution, capsys):
    output = output_of(case.reproduce, solution, capsys)
    assert "returned" in output or "values: right" in output
