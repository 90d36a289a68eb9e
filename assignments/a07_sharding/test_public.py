"""x"""

from ringside.checking.points import points


@points(100, "values", "zero3_torch")
def test_a(ranks, rng):
    pass


@points(100, "values", "hsdp_torch")
def test_b(ranks, rng):
    pass
