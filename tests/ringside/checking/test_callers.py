"""What supplied callers and suites share: functions by name, arrays in values, marks."""

import numpy as np
import pytest

from ringside.checking import find
from ringside.checking.callers import arrays_in, copied, lists_differ, lists_in
from ringside.checking.points import shows


def test_a_target_names_a_function_of_a_module() -> None:
    assert find("math:sqrt")(9.0) == 3.0
    with pytest.raises(AttributeError, match="nothing"):
        find("math:nothing")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        find("no_such_module:sqrt")


def test_arrays_and_lists_are_found_at_any_depth() -> None:
    inner = [np.zeros(3), "x"]
    value = (np.zeros(2), inner, None)
    assert [array.size for array in arrays_in(value)] == [2, 3]
    assert list(lists_in(value)) == [inner]


def test_a_list_that_holds_another_object_of_equal_value_differs() -> None:
    given = [np.zeros(2)]
    pairs = [(given, list(given))]
    assert not lists_differ(pairs)
    given[0] = np.zeros(2)
    assert lists_differ(pairs)


def test_a_copy_shares_no_array_with_its_original() -> None:
    value = (np.arange(3), [np.arange(2)])
    other = copied(value)
    value[0][:] = 7
    value[1][0][:] = 7
    assert [array.tolist() for array in arrays_in(other)] == [[0, 1, 2], [0, 1]]
    assert isinstance(other, tuple) and isinstance(other[1], list)


def test_a_mark_says_which_requirement_a_test_shows_and_of_which_module() -> None:
    mark = shows("sum", "values", "ring", weight=3)
    assert mark.name == "shows" and mark.args == ("sum",)
    assert mark.kwargs == {"kind": "values", "module": "ring", "weight": 3}
