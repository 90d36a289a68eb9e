"""All rows, and the table that shows them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import groupby
from statistics import median

from ringside.checking.published import ACCURACY, Row, load
from ringside.course.validation import collectives, pipelines, runs, training

_TABLES = (
    training.megatron_2021,
    training.zero,
    pipelines.gpipe,
    pipelines.torchgpipe,
    pipelines.pipedream,
    training.tensorflow,
    collectives.osu,
    collectives.nccl,
    collectives.bus_bandwidths,
    collectives.many_nodes,
    runs.published_runs,
    collectives.nccl_trees,
    collectives.megatron_2019,
    training.goyal_bandwidth,
    collectives.goyal,
    training.jin,
)


@cache
def rows() -> tuple[Row, ...]:
    """Every published number that something here predicts."""
    return tuple(row for table in _TABLES for row in table())


def unpredicted() -> list[dict[str, str]]:
    """Published numbers without a prediction: ``source``, ``published`` and ``reason``."""
    _, table = load("unpredicted")
    return list(table["table"])


def markdown() -> str:
    """The document ``lectures/validation.md``."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    every = rows()
    good = sum(row.reproduces for row in every)
    yield "# The model against the world"
    yield ""
    yield "Written by `python -m ringside.course.validation --write`; a test finds it stale."
    yield ""
    yield (
        f"{len(every)} published numbers, of which {good} reproduce within the accuracy of their "
        f"class and {len(every) - good} do not; those say why. What a prediction needs and nobody "
        "published is fitted on one part of a table and judged on the other."
    )
    yield ""
    yield "| class | right within |"
    yield "|---|---|"
    for name, tolerance in ACCURACY.items():
        factor = f"a factor of {1 + tolerance:g}"
        yield f"| {name} | {factor if name.startswith('factor') else f'{tolerance:.1%}'} |"
    for source, group in groupby(every, key=lambda row: row.source):
        yield ""
        yield f"## {source.title}"
        yield ""
        yield f"{source.source}; {source.evidence}."
        yield ""
        if source.note:
            yield source.note
            yield ""
        table = list(group)
        yield f"Median error: {median(abs(row.error) for row in table):.1%}."
        yield ""
        yield "| | published | predicted | error | class | |"
        yield "|---|---:|---:|---:|---|---|"
        for row in table:
            verdict = "yes" if row.reproduces else f"**no**: {row.reason}"
            yield (
                f"| {row.item} | {row.published:g} | {row.predicted:.4g} | {row.error:+.1%} "
                f"| {row.accuracy} | {verdict} |"
            )
    yield ""
    yield "## Published, but nothing here predicts it"
    yield ""
    yield "| | published | why not |"
    yield "|---|---|---|"
    for entry in unpredicted():
        yield f"| {entry['source']} | {entry['published']} | {entry['reason']} |"
