"""Lets a drawing of ours onto a page: only known elements and attributes pass.

A timeline carries words that a student chose (phases, function names). Scripts can't run under
the page's policy; this keeps out whatever else SVG can do: links, foreign content, styles, events.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

SVG = "http://www.w3.org/2000/svg"
ELEMENTS = frozenset(
    """
    svg g rect line path polygon polyline circle ellipse text tspan title desc defs marker
    linearGradient stop pattern clipPath use
    """.split()  # noqa: SIM905
)
ATTRIBUTES = frozenset(
    """
    class clip-path cx cy d dominant-baseline dx dy fill fill-opacity font-family font-size
    font-style font-weight gradientUnits height id markerHeight markerUnits markerWidth
    marker-end marker-start offset opacity orient patternUnits points preserveAspectRatio r refX
    refY role rx ry shape-rendering stop-color stop-opacity stroke stroke-dasharray stroke-linecap
    stroke-linejoin stroke-opacity stroke-width text-anchor transform viewBox width x x1 x2
    xml:space y y1 y2 aria-label aria-hidden
    """.split()  # noqa: SIM905
)
LOCAL_LINK = re.compile(r"#[\w.-]+")
MAX_CHARACTERS = 4_000_000


def clean(drawing: str) -> str:
    """`drawing` with nothing in it but shapes and words; empty where it is no SVG."""
    # Entities that name one another make a small text grow past all memory while it is parsed.
    if len(drawing) > MAX_CHARACTERS or "<!DOCTYPE" in drawing or "<!ENTITY" in drawing:
        return ""
    start = drawing.find("<svg")
    end = drawing.rfind("</svg>")
    if start < 0 or end < 0:
        return ""
    try:
        root = ElementTree.fromstring(drawing[start : end + len("</svg>")])
    except ElementTree.ParseError:
        return ""
    if _local(root.tag) != "svg":
        return ""
    _clean(root)
    ElementTree.register_namespace("", SVG)
    return ElementTree.tostring(root, encoding="unicode")


def _clean(element: ElementTree.Element) -> None:
    element.tag = f"{{{SVG}}}{_local(element.tag)}"
    for name, value in list(element.attrib.items()):
        if not _allowed(name, value):
            del element.attrib[name]
    for child in list(element):
        if isinstance(child.tag, str) and _local(child.tag) in ELEMENTS:
            _clean(child)
        else:
            element.remove(child)


def _allowed(name: str, value: str) -> bool:
    local = _local(name)
    if local == "href":
        return LOCAL_LINK.fullmatch(value) is not None
    if local not in ATTRIBUTES or "<" in value:
        return False
    return "url(" not in value.lower() or re.fullmatch(r"url\(#[\w.-]+\)", value) is not None


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
