"""The index of terms: which sections it names for a word of the glossary."""

from __future__ import annotations

import pytest

from ringside.course.lectures import terms
from ringside.course.lectures.terms import Section

THERE = [
    Section("01_messages", "1. Ranks", "A shard here, and shards there."),
    Section("03_allreduce", "5. Ring", "Each part is called a *shard*."),
    Section("07_sharding", "2. Bytes", "shard shard shard"),
    Section("07_sharding", "10. `Muon`, and more", "token-choice routing; a router"),
    Section("08_tensor", "1. Rows", "shard"),
    Section("09_stages", "1. Stages", "shard shard"),
]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        # The section that introduces a term comes first in choosing, then those that use it most.
        (["shard"], ["1.1", "*3.5", "7.2", "9.1"]),
        (["gate", "router"], ["7.10"]),
        (["token choice"], ["7.10"]),
        (["hard"], []),
    ],
)
def test_a_term_leads_to_where_it_is_introduced_and_used(
    words: list[str], numbers: list[str]
) -> None:
    found = [f"{'*' * first}{one.number}" for one, first in terms.where(words, THERE)]
    assert found == numbers


def test_terms_are_sorted_and_may_have_other_words() -> None:
    glossary = "# Glossary\n\n### shard\n\nA part.\n\n### gate, router\n\nIt chooses.\n"
    assert terms.terms(glossary) == [["gate", "router"], ["shard"]]
    assert THERE[3].link == "[7.10](../lectures/07_sharding.ipynb#10-muon-and-more)"
