"""Tests of several parts, each of which earns its share."""

from ringside.checking.case_kinds import check_kinds


def checked(parts, weights=None):
    """Check each part by itself.

    Args:
        parts: maps a part's name to what checks it.
        weights: of parts that are worth more than others; 1 for those that aren't named.
    """
    check_kinds(parts, str, lambda name: parts[name](), weights=weights)
