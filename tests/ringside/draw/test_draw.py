"""The pictures: parsed and measured, since a picture that parses can still be unreadable."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

import numpy as np
import pytest

import ringside
from ringside import draw, units
from ringside.draw import bar_colors, blocks, palette, row_groups
from ringside.draw.page import text_width
from ringside.spans import Span
from ringside.timing.machine import Machine
from ringside.timing.replay import time_trace
from ringside.trace import CallSite, Kind, Mode, Op, Trace

SVG = "{http://www.w3.org/2000/svg}"
MACHINE = Machine("textbook", alpha_s=1e-6, beta_s_per_byte=1e-9)
SIZES = [1, 2, 3, 4, 7, 16, 64]


def ring_trace(world_size, nbytes, *, steps=None):
    """Every rank exchanges with its neighbours, `steps` times."""
    steps = 2 * (world_size - 1) if steps is None else steps
    ops = []
    for rank in range(world_size):
        row = []
        for step in range(steps):
            sent = step * world_size + rank
            received = step * world_size + (rank - 1) % world_size
            row += [
                Op(Kind.ISEND, (rank + 1) % world_size, 0, nbytes, "world", 2 * step, sent,
                   (Mode.STANDARD,), 0),
                Op(Kind.IRECV, (rank - 1) % world_size, 0, nbytes, "world", 2 * step + 1, received,
                   ((rank - 1) % world_size, 0), 0),
                Op(Kind.WAIT, detail=(2 * step, 2 * step + 1), site=0),
            ]  # fmt: skip
        ops.append(row)
    return Trace(world_size, ops, [CallSite("Sendrecv(dest=next, source=prev)", "ring.py", 14)])


def star_trace(world_size, nbytes, *, work_s=0.0):
    """Rank 0 receives from all in turn; the others compute first, each longer than the last."""
    ops = [[]]
    for rank in range(1, world_size):
        work = Op(Kind.COMPUTE, detail=(0, 0, int(rank * work_s * 1e12), "forward"), site=2)
        ops.append(
            [
                work,
                Op(Kind.ISEND, 0, 0, nbytes, "world", 0, rank, (Mode.STANDARD,), 1),
                Op(Kind.WAIT, detail=(0,), site=1),
            ]
        )
        ops[0] += [
            Op(Kind.IRECV, rank, 0, nbytes, "world", rank, rank, (rank, 0), 0),
            Op(Kind.WAIT, detail=(rank,), site=0),
        ]
    sites = [
        CallSite("Recv(source=r)", "star.py", 11),
        CallSite("Send(dest=0)", "star.py", 18),
        CallSite("compute()", "star.py", 16),
    ]
    return Trace(world_size, ops, sites)


def deadlock_trace(world_size):
    """Every rank sends to the next one and nobody receives."""
    ops = [
        [
            Op(Kind.ISEND, (rank + 1) % world_size, 0, 8, "world", 0, -1, (Mode.SYNC,), 0),
            Op(Kind.WAIT, detail=(0,), site=0),
        ]
        for rank in range(world_size)
    ]
    return Trace(world_size, ops, [CallSite("Ssend(dest=next)", "hang.py", 9)])


def ring(world_size, nbytes=64_000, **options):
    return time_trace(ring_trace(world_size, nbytes, **options), MACHINE)


def star(world_size, nbytes=64_000, **options):
    return time_trace(star_trace(world_size, nbytes, **options), MACHINE)


def parse(svg):
    return ET.fromstring(svg)


def titles(root):
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}title")]


def bar_box(path):
    """x, y, width, height of a bar's path."""
    numbers = re.fullmatch(
        r"M(-?[\d.]+) (-?[\d.]+)h([\d.]+)v([\d.]+)h-([\d.]+)z", path.get("d")
    ).groups()
    return [float(number) for number in numbers[:4]]


@pytest.mark.parametrize("world_size", SIZES)
def test_timeline_is_one_svg_element_that_needs_nothing_from_elsewhere(world_size):
    svg = draw.timeline_svg(ring(world_size))
    root = parse(svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert f"{world_size} rank" in root.get("aria-label")
    urls = set(re.findall(r"https?://[^\"'<> ]+", svg))
    assert urls == {"http://www.w3.org/2000/svg"}
    assert "<script" not in svg
    assert "url(" not in svg
    assert " id=" not in svg


@pytest.mark.parametrize("world_size", SIZES)
def test_every_rank_has_one_row_and_rows_do_not_overlap(world_size):
    root = parse(draw.timeline_svg(star(world_size, work_s=1e-5)))
    rows = [group for group in root.iter(f"{SVG}g") if group.get("class") == "rs-row"]
    assert [int(row.get("data-rank")) for row in rows] == list(range(world_size))
    below = 0.0
    for row in rows:
        boxes = [bar_box(p) for p in row.iter(f"{SVG}path") if p.get("class") == "rs-bar"]
        if world_size == 1:
            assert boxes == []
            continue
        assert len({(y, height) for _, y, _, height in boxes}) == 1
        assert boxes[0][1] >= below
        below = boxes[0][1] + boxes[0][3]
        assert boxes[0][3] >= 3


def test_a_time_axis_can_end_later_than_the_run():
    timeline = star(4, work_s=1e-5)

    def right(**options):
        root = parse(draw.timeline_svg(timeline, **options))
        boxes = [bar_box(p) for p in root.iter(f"{SVG}path") if p.get("class") == "rs-bar"]
        left = min(x for x, *_ in boxes)
        return max(x + width for x, _, width, _ in boxes) - left

    twice = right(until_s=2 * timeline.makespan_s)
    assert twice == pytest.approx(right() / 2, abs=1)  # gaps between bars
    assert right(until_s=timeline.makespan_s / 2) == right()


@pytest.mark.parametrize("world_size", [2, 4, 7])
def test_bars_cover_exactly_the_time_of_each_rank(world_size):
    timeline = star(world_size, work_s=2e-5)
    root = parse(draw.timeline_svg(timeline))
    rows = [group for group in root.iter(f"{SVG}g") if group.get("class") == "rs-row"]
    boxes = [
        sorted(bar_box(p) for p in row.iter(f"{SVG}path") if p.get("class") == "rs-bar")
        for row in rows
    ]
    left = min(box[0] for row in boxes for box in row)
    scale = max(box[0] + box[2] for row in boxes for box in row) - left
    for rank, row in enumerate(boxes):
        spans = [span for span in timeline.spans[rank] if span.end_s > span.start_s]
        assert len(row) == len(spans)
        for box, span in zip(row, spans, strict=True):
            assert box[0] == pytest.approx(
                left + scale * span.start_s / timeline.makespan_s, abs=0.7
            )
            seconds = span.end_s - span.start_s
            assert box[2] == pytest.approx(scale * seconds / timeline.makespan_s, abs=0.8)


@pytest.mark.parametrize("world_size", SIZES)
def test_no_text_leaves_the_picture(world_size):
    for timeline in (ring(world_size), star(world_size, work_s=1e-5)):
        root = parse(draw.timeline_svg(timeline))
        width, height = float(root.get("width")), float(root.get("height"))
        for element in root.iter(f"{SVG}text"):
            room = text_width(element.text, float(element.get("font-size")))
            x = float(element.get("x"))
            anchor = element.get("text-anchor", "start")
            start = x - {"start": 0, "middle": room / 2, "end": room}[anchor]
            assert start >= 0, element.text
            assert start + room <= width, element.text
            assert 0 < float(element.get("y")) < height


def test_words_in_a_bar_fit_into_it():
    root = parse(draw.timeline_svg(ring(4)))
    words = [e for e in root.iter(f"{SVG}text") if e.get("class").startswith("rs-on-")]
    assert {word.text for word in words} == {"Sendrecv"}
    widths = [bar_box(p)[2] for p in root.iter(f"{SVG}path") if p.get("class") == "rs-bar"]
    assert max(text_width(word.text, 10.5) for word in words) <= min(widths)


def test_hover_text_tells_rank_call_line_bytes_partners_and_times():
    root = parse(draw.timeline_svg(ring(4, 64_000)))
    assert (
        "rank 2 · Sendrecv(dest=next, source=prev) · ring.py:14\n"
        "communication, 65.0 to 130.0 µs (65 µs long)\n"
        "sent 64 kB to rank 3\n"
        "received 64 kB from rank 1"
    ) in titles(root)
    assert (
        "message from rank 3 to rank 0, tag 0, 64 kB · ring.py:14\n"
        "on the wire 0.0 to 65.0 µs (65 µs long)"
    ) in titles(root)


def test_file_names_and_calls_are_escaped():
    trace = ring_trace(2, 8)
    trace.sites[0] = CallSite("Send(tag='<script>&\"')", "<img src=x>.py", 1)
    svg = draw.timeline_svg(time_trace(trace, MACHINE))
    assert "<script" not in svg
    assert "<img" not in svg
    assert any("Send(tag='<script>&\"')" in title for title in titles(parse(svg)))


def test_equal_timelines_give_equal_pictures():
    first, second = (draw.timeline_svg(star(7, work_s=1e-5)) for _ in range(2))
    assert first == second


def test_messages_have_arrows_with_hover_text_only_while_they_are_legible():
    few, many = draw.timeline_svg(ring(8)), draw.timeline_svg(star(32, work_s=1e-6))
    assert few.count('class="rs-message"') == 8 * 14
    assert many.count('class="rs-message"') == 0
    assert 'class="rs-ink-line rs-quiet"' in many


def test_a_large_trace_stays_small_enough_for_a_notebook():
    svg = draw.timeline_svg(ring(16, steps=1008))
    assert len(svg.encode()) < 1_500_000
    assert len(list(parse(svg).iter())) < 12_000
    assert "1008 messages" in svg or "joined" in svg


def test_critical_path_is_drawn_over_each_rank_that_it_visits():
    timeline = star(4, work_s=5e-5)
    root = parse(draw.timeline_svg(timeline))
    (line,) = [p for p in root.iter(f"{SVG}path") if p.get("class") == "rs-ink-line rs-quiet"]
    heights = set(re.findall(r"[ML][\d.]+ ([\d.]+)H", line.get("d")))
    assert len(heights) == len({span.rank for span in timeline.critical_path})


def test_a_run_that_stands_still_shows_what_each_rank_is_blocked_in():
    root = parse(draw.timeline_svg(time_trace(deadlock_trace(4), MACHINE)))
    words = [e.text for e in root.iter(f"{SVG}text")]
    assert words.count("blocked in Ssend(dest=next) · hang.py:9") == 4
    assert "Rank 3 is blocked in Ssend(dest=next) · hang.py:9." in root.get("aria-label")
    assert any(word.startswith("stands still at 0 s") for word in words)


def test_a_run_without_any_time_can_be_drawn():
    for timeline in (ring(1), time_trace(Trace(3, [[], [], []]), MACHINE)):
        assert parse(draw.timeline_svg(timeline)).tag == f"{SVG}svg"


def test_blocks_lose_no_time_and_keep_wide_spans_alone():
    spans = [Span(0, 0.0, 10.0, "compute", "a", "f.py:1")]
    for k in range(40):
        kind = "communication" if k % 4 else "idle"
        spans.append(Span(0, 10.0 + 0.1 * k, 10.0 + 0.1 * (k + 1), kind, "b", "f.py:2"))
    made = blocks.cut(spans, 1.0)
    assert made[0].spans == (spans[0],)
    assert [span for block in made for span in block.spans] == spans
    assert all(a.end_s == b.start_s for a, b in pairwise(made))
    assert 4 <= len(made) <= 6
    assert all(block.kind == "communication" for block in made[1:])


def test_colours_can_be_told_apart_without_hue():
    for theme in (palette.LIGHT, palette.DARK):
        grey = [luminance(getattr(theme, kind)) for kind in palette.KINDS]
        for a, b in ((0, 1), (0, 2), (1, 2)):
            assert contrast(grey[a], grey[b]) > 1.4
        paper = luminance(theme.paper)
        assert contrast(luminance(theme.ink), paper) > 12
        assert contrast(luminance(theme.muted), paper) > 4.5
        for kind in palette.KINDS:
            words = luminance(getattr(theme, f"on_{kind}"))
            assert contrast(words, luminance(getattr(theme, kind))) > 4.5


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a, b):
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


# What people with protanopia, deuteranopia and tritanopia see (Machado et al. 2009, severity 1).
BLINDNESS = {
    "none": np.eye(3),
    "protan": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deutan": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritan": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour, blindness):
    """CIELAB of what is seen of a colour."""
    light = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    light = np.where(light <= 0.04045, light / 12.92, ((light + 0.055) / 1.055) ** 2.4)
    seen = XYZ @ np.clip(np.array(BLINDNESS[blindness]) @ light, 0, 1)
    x, y, z = np.cbrt(seen / XYZ.sum(axis=1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_eight_groups_of_ranks_can_be_told_apart(blindness):
    letters, hues, inks = zip(*palette.group_styles(8), strict=True)
    assert letters == tuple("ABCDEFGH")
    for a, b in combinations(hues, 2):
        assert np.linalg.norm(lab(a, blindness) - lab(b, blindness)) > 12, (a, b)
    for hue, ink in zip(hues, inks, strict=True):
        assert contrast(luminance(hue), luminance(ink)) > 4.5, hue


def test_of_more_groups_each_has_its_letter():
    letters = [letter for letter, _, _ in palette.group_styles(60)]
    assert len(set(letters)) == 60 and letters[25:28] == ["Z", "A1", "B1"]


def test_schemes_keep_their_colour_whatever_is_drawn_beside_them():
    alone = palette.scheme_styles(["ring"])
    both = palette.scheme_styles(["mine", "star", "ring", "yours"])
    assert alone["ring"] == both["ring"]
    assert len({colour for colour, _ in both.values()}) == 4
    kinds = {getattr(palette.LIGHT, kind) for kind in palette.KINDS}
    assert kinds.isdisjoint(colour for colour, _ in both.values())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (3e-9, "3 ns"),
        (999.9e-9, "1 µs"),
        (126.04e-6, "126 µs"),
        (1.5e-3, "1.5 ms"),
        (2.0, "2 s"),
        (5000.0, "5000 s"),
    ],
)
def test_times_read_with_their_unit(seconds, text):
    assert units.format_time(seconds) == text


@pytest.mark.parametrize("longest", [0.7, 1.0, 9.99, 126.0, 999.0])
def test_ticks_are_round_and_end_inside(longest):
    ticks = units.round_ticks(longest, 8)
    assert ticks[0] == 0
    assert ticks[-1] <= longest * (1 + 1e-9)
    assert 4 <= len(ticks) <= 12
    assert np.allclose(np.diff(ticks), ticks[1])


def test_crossover_has_lines_for_predictions_and_markers_for_replays():
    from matplotlib.figure import Figure

    sizes = [2.0**k for k in range(6, 21, 2)]
    replayed = {"ring": [1e-6 * n for n in sizes], "mine": [2e-6 * n for n in sizes]}
    ax = draw.crossover_axes(
        sizes, replayed, {"ring": [1e-6 * n for n in sizes]}, Figure().add_subplot()
    )
    drawn = [(line.get_linestyle(), line.get_marker()) for line in ax.lines]
    assert drawn == [("-", "None"), ("None", "D"), (":", "X")]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    ax.figure.canvas.draw()
    assert next(t.get_text() for t in ax.get_xticklabels()) == "64 B"
    assert ax.get_yticklabels()[1].get_text().split()[1] in {"ns", "µs", "ms", "s"}


def test_a_scheme_that_another_covers_stays_visible_as_a_rim():
    from matplotlib.figure import Figure

    sizes = [64.0, 4096.0, 2.0**20]
    times = {"star": [9.0, 9.0, 9.0], "sharded_server": [1.0, 2.0, 3.0], "ring": [1.0, 2.0, 3.0]}
    ax = draw.crossover_axes(sizes, times, times, Figure().add_subplot())
    widths = [line.get_linewidth() for line in ax.lines if line.get_linestyle() == "-"]
    markers = [line.get_markersize() for line in ax.lines if line.get_linestyle() == "None"]
    assert widths[1] >= widths[2] + 2
    assert markers[1] >= markers[2] + 2
    assert widths[0] == widths[2]


def test_crossover_widens_no_line_for_a_curve_without_a_formula():
    from matplotlib.figure import Figure

    sizes, times = [8.0, 64.0], [1e-6, 2e-6]
    curves = {"halving_doubling": times, "tree": times}
    ax = draw.crossover_axes(sizes, curves, {"halving_doubling": times}, Figure().add_subplot())
    line, markers, _ = ax.get_lines()
    assert (line.get_linewidth(), markers.get_markersize()) == (1.5, 5.5)


def test_crossover_refuses_curves_of_another_length():
    with pytest.raises(ValueError, match=r"curves\['ring'\] has 1 values for 2 sizes"):
        draw.crossover_axes([8, 16], {"ring": [1.0]})
    with pytest.raises(ValueError, match="sizes must be above 0"):
        draw.crossover_axes([0, 16], {"ring": [1.0, 2.0]})


def test_importing_the_pictures_does_not_import_matplotlib():
    code = "import sys, ringside.draw; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Measured:
    """The attributes that a timeline of real times has, and no others."""

    world_size, machine_name, time_label = 2, "laptop", "measured time"
    makespan_s, exposed_comm_s = 2e-3, 1e-3
    spans = (
        [Span(0, 0.0, 2e-3, "communication", "Recv", "a.py:3")],
        [Span(1, 0.0, 1e-3, "compute", "", "")],
    )
    messages, critical_path = (), ()


def test_a_measured_timeline_is_drawn_with_its_own_words():
    words = [e.text for e in parse(draw.timeline_svg(Measured())).iter(f"{SVG}text")]
    assert "measured time (ms)" in words
    assert "0 messages" not in words  # nobody has counted those of the library's collectives


def pipeline_trace(num_stages, num_microbatches, words="{way}{k}"):
    """Every stage does all forward passes and then all backward passes; nothing is sent."""
    row = [
        Op(Kind.COMPUTE, detail=(0, 0, 10**9, words.format(way=way, k=k)), site=0)
        for way in ("F", "B")
        for k in range(num_microbatches)
    ]
    return Trace(num_stages, [row] * num_stages, [CallSite("compute()", "pipe.py", 3)])


def groups_of_bars(svg):
    """The classes of every group of bars."""
    return [
        g.get("class")
        for g in parse(svg).iter(f"{SVG}g")
        if g.find(f"{SVG}path") is not None and g.find(f"{SVG}path").get("class") == "rs-bar"
    ]


def test_forward_and_backward_have_two_hues_and_microbatches_shades_of_them():
    for num_microbatches in (4, 8):  # the same in every figure
        svg = draw.timeline_svg(time_trace(pipeline_trace(2, num_microbatches), MACHINE))
        first = groups_of_bars(svg)[:8]
        shades = ["", *(f" rs-shade-{shade}" for shade in (1, 2, 3))]
        assert first == [f"rs-{w}{s}" for w in ("forward", "backward") for s in shades]
    words = {e.text for e in parse(svg).iter(f"{SVG}text")}
    assert {"F0", "B7", "forward, by microbatch", "backward, by microbatch"} <= words
    assert words.isdisjoint({"compute", "communication", "idle", "message"})  # none is drawn


def test_labels_shrink_to_the_number_of_the_microbatch():
    trace = pipeline_trace(1, 32, "{way}{k}")
    words = [
        e.text for e in parse(draw.timeline_svg(time_trace(trace, MACHINE))).iter(f"{SVG}text")
    ]
    assert [w for w in words if re.fullmatch(r"[FB]?\d+", w)][1:33] != []
    for k in range(32):
        assert {f"F{k}", f"{k}"} & set(words)


def test_forward_and_backward_stay_apart_in_grey_and_words_on_them_readable():
    for theme, sign in ((palette.LIGHT, 1), (palette.DARK, -1)):
        hues = {
            role: [bar_colors.Tone(role, k).hue(theme) for k in range(bar_colors.SHADES)]
            for role in ("forward", "backward", "item")
        }
        forward, backward = ([luminance(h) for h in hues[r]] for r in ("forward", "backward"))
        assert all(sign * f < sign * b for f in forward for b in backward)
        idle = luminance(theme.idle)
        for role, all_of in hues.items():
            if theme is palette.LIGHT:  # which is what is printed in grey
                assert all(contrast(idle, luminance(hue)) > 1.15 for hue in all_of), role
            words = luminance(getattr(theme, f"on_{bar_colors.Tone(role).text}"))
            assert all(contrast(words, luminance(hue)) > 4.5 for hue in all_of), role
            for one, other in pairwise(all_of):
                assert contrast(luminance(one), luminance(other)) > 1.15


def named_ring(world_size, nbytes=64_000):
    """A ring whose program names its two phases and the shard that each message carries."""
    trace = ring_trace(world_size, nbytes)
    steps, sites, ops = world_size - 1, [], []
    for rank, row in enumerate(trace.ops):
        named = []
        for number, op in enumerate(row):
            step = number // 3
            phase = "reduce-scatter" if step < steps else "all-gather"
            shard = (rank - step + (step >= steps)) % world_size
            sites.append(CallSite(f"Sendrecv(dest=next) [{phase}, shard {shard}]", "ring.py", 9))
            named.append(op._replace(site=len(sites) - 1))
        ops.append(named)
    return time_trace(Trace(world_size, ops, sites), MACHINE)


def test_phases_are_brackets_and_items_are_shades_that_move_around_the_ring():
    root = parse(draw.timeline_svg(named_ring(16)))
    words = [e.text for e in root.iter(f"{SVG}text")]
    assert words.count("reduce-scatter") == words.count("all-gather") == 1
    assert "communication, by shard" in words
    assert [w for w in words if w.isdigit()].count("7") >= 16
    said = titles(root)
    assert any("sent 64 kB (shard 3) to rank 4" in t and "in reduce-scatter" in t for t in said)
    assert any(t.startswith("message from rank 3 to rank 4, tag 0, 64 kB (shard 3)") for t in said)
    assert {name.split()[0] for name in groups_of_bars(draw.timeline_svg(named_ring(4)))} == {
        "rs-item"
    }


def test_a_message_around_the_ring_lies_above_the_bars_in_one_piece():
    svg = draw.timeline_svg(ring(4))
    last_bar = svg.rindex('class="rs-bar"')
    above = svg[last_bar:]
    assert above.count('class="rs-message"') == 6  # from rank 3 to rank 0, once in each step
    assert svg.count('class="rs-message"') == 24
    assert above.count("message from rank 3 to rank 0") == 6


def test_the_critical_path_stays_on_one_of_ranks_that_are_alike():
    for world_size in (2, 4, 7, 16):
        assert {span.rank for span in ring(world_size).critical_path} == {0}


@pytest.mark.parametrize("world_size", [17, 64, 512])
def test_many_ranks_that_behave_alike_are_one_row(world_size):
    root = parse(draw.timeline_svg(ring(world_size, steps=8)))
    rows = [g.get("data-rank") for g in root.iter(f"{SVG}g") if g.get("class") == "rs-row"]
    assert rows == ["0"]
    words = [e.text for e in root.iter(f"{SVG}text")]
    assert f"ranks 0 to {world_size - 1} ({world_size})" in words
    assert "message" not in words  # in the legend: none is drawn


def test_of_many_ranks_that_differ_rows_share_out_the_time():
    timeline = star(128, work_s=1e-6)
    svg = draw.timeline_svg(timeline)
    root = parse(svg)
    rows = [g for g in root.iter(f"{SVG}g") if g.get("class") == "rs-row"]
    assert [g.get("data-rank") for g in rows] == [str(rank) for rank in range(0, 128, 4)]
    part = row_groups.shares_over_time(timeline, range(4, 8), timeline.makespan_s)
    np.testing.assert_allclose(part.sum(axis=1), 1.0)
    busy = sum(timeline.busy_s[4:8]) / 4 / timeline.makespan_s
    assert part[:, row_groups.STACK.index("forward")].mean() == pytest.approx(busy)
    assert len(svg) < 300_000


@pytest.mark.parametrize(
    ("nbytes", "said"), [(8000, "8 kB"), (2**20, "1 MiB"), (64_000, "64 kB"), (2**18, "256 KiB")]
)
def test_bytes_are_told_in_the_units_in_which_messages_are_round(nbytes, said):
    svg = draw.timeline_svg(ring(2, nbytes))
    assert f"tag 0, {said} ·" in svg
    assert ("KiB" in svg or "MiB" in svg) == ("i" in said)


def test_styles_cannot_touch_the_page_around_the_picture():
    css = draw.svg_style().removeprefix("<style>").removesuffix("</style>")
    selectors = re.findall(r"(?:^|[{}])([^{}@]+)\{", css)
    assert len(selectors) > 15
    assert all(".rs-" in part or ".ringside" in part for s in selectors for part in s.split(","))
    classes = set(re.findall(r'class="([^"]+)"', draw.timeline_svg(star(4))))
    assert all(name.startswith(("rs-", "ringside")) for c in classes for name in c.split())


def test_a_run_on_the_network_shows_the_students_line(tmp_path):
    (tmp_path / "exchange.py").write_text(
        "import numpy as np\n"
        "def swap(comm, x):\n"
        "    y = np.empty_like(x)\n"
        "    other = comm.Get_size() - 1 - comm.Get_rank()\n"
        "    comm.Sendrecv(x, other, recvbuf=y, source=other)\n"
        "    return y\n",
        encoding="utf-8",
    )
    args = [(np.arange(1000.0),)] * 4
    result = ringside.run(tmp_path / "exchange.py:swap", world_size=4, args=args)
    hovers = titles(parse(draw.timeline_svg(result.timeline)))
    bars = [text for text in hovers if text.startswith("rank") and "exchange.py:5" in text]
    assert len(bars) == 4
    assert "communication, 0.00 to 9.00 µs (9 µs long)" in bars[0]
    assert "sent 8 kB to rank 3\nreceived 8 kB from rank 3" in bars[0]
