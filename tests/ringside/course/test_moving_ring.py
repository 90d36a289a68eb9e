"""The ring that moves: the numbers of a run, in a picture that also stands still."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

import ringside
from ringside.course.lectures import moving_ring

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", params=[2, 3, 4, 5])
def ring(request):
    return moving_ring(request.param)


def test_the_run_sums_every_shard_and_keeps_to_the_ring(ring):
    p = len(ring.held[0])
    first = np.array(ring.held[0])
    assert ring.held[0] == (10 * np.arange(p)[:, None] + np.arange(1, p + 1)).tolist()
    assert ring.held[-1] == [first.sum(axis=0).tolist()] * p
    assert len(ring.held) == 2 * (p - 1) + 1
    after_scatter = np.array(ring.counts[p - 1])
    assert (after_scatter == p).sum() == p  # one finished sum on each rank
    assert ((after_scatter == p).sum(axis=1) == 1).all()
    assert ring.sent_bytes == [2 * (p - 1) * 16] * p  # a number and its count, 8 bytes each


def test_every_step_is_drawn_with_what_the_ranks_held(ring):
    groups = ET.fromstring(ring.svg).iter(f"{SVG}g")
    (root,) = [group for group in groups if group.get("class") == "rs-still"]
    p, num_steps = len(ring.held[0]), len(ring.held)
    numbers = [t.text for t in root.iter(f"{SVG}text") if t.get("font-size") == "13.5"]
    assert numbers == [str(n) for step in ring.held for row in step for n in row]
    rims = [r for r in root.iter(f"{SVG}rect") if r.get("stroke-width") == "1.6"]
    assert len(rims) == (num_steps - 1) * p  # a message for each rank and step
    assert not list(root.iter(f"{SVG}animate"))


def test_the_moving_view_has_a_frame_for_each_step_and_a_message_for_each_rank(ring):
    root = ET.fromstring(ring.svg)
    p, num_steps = len(ring.held[0]), len(ring.held)
    assert len(list(root.iter(f"{SVG}animate"))) == num_steps
    assert len(list(root.iter(f"{SVG}animateTransform"))) == (num_steps - 1) * p
    for moved in (*root.iter(f"{SVG}animate"), *root.iter(f"{SVG}animateTransform")):
        times = [float(time) for time in moved.get("keyTimes").split(";")]
        assert times == sorted(times)
        assert times[0] == 0
        assert len(times) == len(moved.get("values").split(";"))
    # Of the frames one is seen at any time.
    instants = np.linspace(0.001, 0.999, 400)
    seen = sum(np.array([shown_at(a, t) for t in instants]) for a in root.iter(f"{SVG}animate"))
    assert (seen == 1).all()


def shown_at(animate, instant):
    times = [float(time) for time in animate.get("keyTimes").split(";")]
    values = [int(value) for value in animate.get("values").split(";")]
    return values[sum(time <= instant for time in times) - 1]


def test_readers_who_want_no_motion_and_paper_get_the_steps(ring):
    assert "@media (prefers-reduced-motion:reduce){.rs-moving{display:none}" in ring.svg
    assert "@media print{.rs-moving{display:none}" in ring.svg
    assert " id=" not in ring.svg
    assert "<script" not in ring.svg
    assert ring._repr_html_() == ring.svg
    assert len(repr(ring)) < 40


def test_messages_stay_inside_the_picture(ring):
    root = ET.fromstring(ring.svg)
    width, height = float(root.get("width")), float(root.get("height"))
    for group in root.iter(f"{SVG}g"):
        for moved in group.findall(f"{SVG}animateTransform"):
            box = group.find(f"{SVG}rect")
            x, y, wide, high = (float(box.get(k)) for k in ("x", "y", "width", "height"))
            for step in moved.get("values").split(";"):
                dx, dy = map(float, step.split())
                assert 0 <= x + dx <= width - wide
                assert 0 <= y + dy <= height - high


def test_too_many_ranks_are_refused():
    with pytest.raises(ringside.TargetError, match=r"world_size \(6\) must be between 2 and 5"):
        moving_ring(6)
