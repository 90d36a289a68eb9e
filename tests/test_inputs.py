"""Arguments that `ringside run` makes for a function from its parameters and the options."""

import pytest

from ringside.inputs import Options, arguments_of_rank


@pytest.mark.parametrize(
    ("options", "given"),
    [
        (Options(), []),
        (Options(n=3), [3]),
        (Options(seed=9), [16, 9]),
        (Options(n=3, dtype="int64"), [3, 0, "int64"]),
        (Options(others={"chunks": 4}), [16, 0, "float64", 4]),
    ],
)
def test_a_parameter_with_a_default_is_given_when_it_was_asked_for(tmp_path, options, given):
    path = tmp_path / "it.py"
    path.write_text("def f(comm, x, n=5, seed=7, dtype='float32', chunks=1):\n    pass\n")
    x, *rest = arguments_of_rank(path, "f", 2, 0, options)
    assert len(x) == options.n and x.dtype == options.dtype
    assert rest == given
