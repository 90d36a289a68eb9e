"""The gallery of collectives: run on ranks, equal to NumPy, and readable wherever it stands."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import ringside
from ringside.course.lectures import gallery
from ringside.course.lectures.gallery import COLLECTIVES
from ringside.draw.page import text_width

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", params=[2, 4, 8])
def shown(request):
    return gallery(world_size=request.param)


def test_every_collective_gives_what_numpy_gives(shown):
    p = len(shown.arrive_us)
    held = 10 * np.arange(p)[:, None] + np.arange(1, p + 1)
    sums, every, none = held.sum(axis=0), held.tolist(), [[]] * (p - 1)
    wanted = {
        "broadcast": [every[0]] * p,
        "reduce": [sums.tolist(), *none],
        "scatter": [[k + 1] for k in range(p)],
        "gather": [held[:, 0].tolist(), *none],
        "all-gather": [held[:, 0].tolist()] * p,
        "reduce-scatter": [[int(k)] for k in sums],
        "all-reduce": [sums.tolist()] * p,
        "all-to-all": held.T.tolist(),
    }
    assert shown.after == wanted
    assert list(shown.svgs) == list(COLLECTIVES)
    for name, rows in shown.before.items():
        firsts = [[every[0], *none], every, held[:, :1].tolist()]
        assert rows in firsts, name


def test_nobody_leaves_a_barrier_before_the_last_has_arrived(shown):
    assert min(shown.leave_us) >= max(shown.arrive_us)
    assert shown.arrive_us == [(2, 5, 3, 8)[rank % 4] for rank in range(len(shown.arrive_us))]


def test_the_drawing_shows_the_numbers_of_the_run_and_no_others(shown):
    for name, svg in shown.svgs.items():
        root = ET.fromstring(svg)
        numbers = [int(t.text) for t in root.iter(f"{SVG}text") if re.fullmatch(r"\d+", t.text)]
        if name != "barrier":
            held = [*shown.before[name], *shown.after[name]]
            assert numbers == [number for row in held for number in row]
            empty = [r for r in root.iter(f"{SVG}rect") if r.get("stroke-dasharray")]
            assert len(empty) == sum(not row for row in held)
        assert name.capitalize() in root.get("aria-label")


def test_drawings_fit_a_phone_and_no_text_leaves_them(shown):
    for svg in shown.svgs.values():
        root = ET.fromstring(svg)
        width, height = float(root.get("width")), float(root.get("height"))
        assert width <= 400
        for element in root.iter(f"{SVG}text"):
            size = float(element.get("font-size"))
            assert size >= 11
            wide = text_width(element.text, size)
            x = float(element.get("x"))
            x -= {"middle": wide / 2, "end": wide}.get(element.get("text-anchor"), 0)
            assert x >= 0
            assert x + 0.9 * wide <= width  # the estimate is generous
            assert float(element.get("y")) <= height


def test_one_drawing_can_be_asked_for():
    one = gallery("all-reduce")
    assert list(one.svgs) == ["all-reduce"]
    assert one.after["all-reduce"] == [[64, 68, 72, 76]] * 4
    assert one._repr_html_().count("<svg") == 1
    assert repr(one) == "Gallery(all-reduce)"


def test_what_does_not_exist_is_refused():
    with pytest.raises(ringside.TargetError, match="'all-scatter' is none of broadcast, reduce"):
        gallery("all-scatter")
    with pytest.raises(ringside.TargetError, match=r"world_size \(9\) must be between 2 and 8"):
        gallery(world_size=9)
