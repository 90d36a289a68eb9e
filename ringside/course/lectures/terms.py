"""The index of terms: in which sections of the lectures each word of the glossary is at home.

    ### prefetch, look-ahead     in docs/glossary.md: a term, and other words for it
    *prefetch*                   in a lecture: the term is introduced here

The index names the sections that use a term most, and the one that introduces it in bold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ringside.course.lectures.handout import Handout
from ringside.course.lectures.meetings import heading_of

GLOSSARY = "docs/glossary.md"
PAGE = "kit/terms.md"  # of the site
MOST = 4  # sections of a term

_TERM = re.compile(r"(?m)^### (.+)$")


@dataclass(frozen=True)
class Section:
    """A section of a lecture: where its page is, and the text of its cells."""

    lecture: str
    heading: str
    text: str

    @property
    def number(self) -> str:
        """As in "7.5"."""
        return f"{int(self.lecture[:2])}.{self.heading.partition('.')[0]}"

    @property
    def link(self) -> str:
        return f"[{self.number}](../lectures/{self.lecture}.ipynb#{anchor(self.heading)})"


def terms(glossary: str) -> list[list[str]]:
    """The glossary's terms, each with its other words, by the alphabet."""
    found = [heading.split(", ") for heading in _TERM.findall(glossary)]
    return sorted(found, key=lambda words: words[0].lower())


def sections(lectures: Sequence[Handout]) -> list[Section]:
    """The numbered sections of the lectures, with what readers see of them."""
    found = []
    for lecture in lectures:
        texts: dict[str, list[str]] = {}
        heading = ""
        for cell in lecture.read().cells:
            heading = heading_of(cell) or heading
            if cell.cell_type == "markdown" and heading[:1].isdigit():
                texts.setdefault(heading, []).append(cell.source)
        found += [Section(lecture.name, name, "\n".join(of)) for name, of in texts.items()]
    return found


def page(glossary: str, lectures: Sequence[Handout]) -> Iterator[str]:
    """Yield the lines of the page."""
    there = sections(lectures)
    yield from ("# Index of terms", "")
    yield "A term leads to its entry in the glossary, and a number such as 7.5 to section 5 of"
    yield f"lecture 7. At most {MOST} sections are named, those that use the term most; the one"
    yield from ("that introduces it is in bold.", "")
    yield from ("| term | sections |", "|---|---|")
    for words in terms(glossary):
        also = f" ({', '.join(words[1:])})" if words[1:] else ""
        links = [f"**{one.link}**" if first else one.link for one, first in where(words, there)]
        target = f"glossary.md#{anchor(', '.join(words))}"
        if links:
            yield f"| [{words[0]}]({target}){also} | {', '.join(links)} |"


def where(words: Sequence[str], there: Sequence[Section]) -> list[tuple[Section, bool]]:
    """The sections in which a term is at home, in order, and whether each introduces it."""
    spelled = "|".join(rf"{re.escape(word).replace(chr(92) + ' ', '[ -]')}" for word in words)
    use = re.compile(rf"(?i)\b(?:{spelled})(?:e?s)?\b")
    introduction = re.compile(rf"(?i)(?<!\w)\*(?:{spelled})(?:e?s)?\*")
    counts = {at: len(use.findall(one.text)) for at, one in enumerate(there)}
    first = next((at for at, one in enumerate(there) if introduction.search(one.text)), None)
    most = sorted((at for at in counts if counts[at]), key=lambda at: (at != first, -counts[at]))
    return [(there[at], at == first) for at in sorted(most[:MOST])]


def anchor(heading: str) -> str:
    """The anchor that MyST gives a heading."""
    text = re.sub(r"\$[^$]*\$", "", heading)  # it leaves formulas out
    return re.sub(r"[^\w\- ]", "", text.strip().lower().replace(" ", "-"))
