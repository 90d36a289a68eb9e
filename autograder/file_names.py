"""The name of a person's file: each person has another one, on any disk.

    ada.adeyemi@uni.example     ada.adeyemi@uni.example
    李明                         李明
    Ada Lovelace                +Ada=20+Lovelace    a capital is marked
    a/b                         a=2Fb               other characters are given as UTF-8 bytes

A name depends on the person alone, and not on who else is in the class: two gradings into one
folder never give one person's page to another. Capitals are marked since some disks take ``Ada``
and ``ada`` for one name.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

MAX_BYTES = 160  # of a file's name, so that a suffix fits into the 255 that disks allow
_PLAIN = frozenset("_.@-")
_CUT = "=~"  # no escape: what follows is a hash


def of(person: str) -> str:
    """The name, without a suffix, of the files that are made for a person.

    >>> of("ada"), of("李明"), of("a b"), of("a+b"), of("Ada"), of("..")
    ('ada', '李明', 'a=20b', 'a=2Bb', '+Ada', '=2E=2E')
    """
    composed = unicodedata.is_normalized("NFC", person)
    name = "".join(_written(letter, composed) for letter in person)
    if name[:1] in (".", "-"):  # a hidden file, an option
        name = _escaped(name[0]) + name[1:]
    if name[-1:] == ".":  # which Windows takes away
        name = name[:-1] + _escaped(".")
    if len(name.encode()) <= MAX_BYTES:
        return name or "="
    digest = hashlib.sha256(person.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{_cut(name)}{_CUT}{digest}"


def in_tree(person: str) -> str:
    """What nbgrader's tree calls a person: its folders' names are the gradebook's, and patterns.

    >>> in_tree("Ada"), in_tree("a/b@x"), in_tree("a*b@x"), in_tree("a=2Ab@x")
    ('Ada', 'a=2Fb@x', 'a=2Ab@x', 'a=3D2Ab@x')
    """
    name = re.sub(r"=(?=[0-9A-F]{2})", _escaped("="), person)
    return re.sub(r"[/\\\0*?\[\]]|^\.", lambda found: _escaped(found[0]), name)


def _written(letter: str, composed: bool) -> str:
    """A letter as it stands in a name: of any script, if disks write it in one way only."""
    if letter in _PLAIN:
        return letter
    kind = unicodedata.category(letter)
    if not (letter.isascii() or composed) or kind[0] not in "LMN":
        return _escaped(letter)
    if letter.casefold() == letter:
        return letter
    return f"+{letter}" if len(letter.casefold()) == 1 else _escaped(letter)


def _escaped(letter: str) -> str:
    return "".join(f"={byte:02X}" for byte in letter.encode("utf-8", "surrogatepass"))


def _cut(name: str) -> str:
    """The beginning of a name that is too long, and no part of an escape."""
    head = name.encode()[: MAX_BYTES - len(_CUT) - 32].decode("utf-8", "ignore")
    return re.sub(r"(=[0-9A-F]?|\+)$", "", head)
