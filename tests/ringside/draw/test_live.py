"""Timelines that a reader can zoom: in a browser, on a phone, and without the script."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import ringside
from ringside import draw
from ringside.draw.live import script, script_tag, with_script
from tests.browser import CHROMIUM, Browser
from tests.ringside.draw.test_draw import SVG, ring, star

in_browser = pytest.mark.browser
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
SITE_CSS = Path(ringside.__file__).parent / "course" / "lectures" / "templates" / "site.css"
TIMELINE = star(4, work_s=1e-5)
# What stands on the picture that the browser shows first, and where things on it are.
WORDS = "[...document.querySelectorAll('svg.ringside text')].map(one => one.textContent)"
BARS = "[...document.querySelectorAll('.rs-bar')].map(one => one.getBBox().width)"


@pytest.fixture(scope="module")
def browser():
    with Browser() as one:
        yield one


def shown(browser, tmp_path, body, *, head="", name="page.html", **screen):
    """Open a page with a body."""
    path = tmp_path / name
    phone = '<meta name="viewport" content="width=device-width">'
    path.write_text(f"<!doctype html><meta charset=utf-8>{phone}{head}<body>{body}")
    browser.open(path.as_uri(), **screen)


def point(browser, css):
    """Move the pointer onto the middle of an element."""
    x, y = browser.ask(
        f"(r => [r.left + r.width / 2, r.top + r.height / 2])"
        f"(document.querySelector({css!r}).getBoundingClientRect())"
    )
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)


def test_the_picture_is_the_same_and_the_script_stands_behind_it():
    assert draw.live_html(TIMELINE) == draw.timeline_svg(TIMELINE) + script_tag()
    assert with_script("<p>no timeline</p>") == "<p>no timeline</p>"
    assert "fetch" not in script() and "import" not in script() and "</" not in script()
    assert len(script()) < 10_000


def test_a_file_with_the_script_in_it_is_well_formed():
    root = ET.fromstring(draw.live_svg(TIMELINE))
    assert root.tag == f"{SVG}svg" and root[-1].text == script()


def test_words_of_the_critical_path_add_up_to_the_makespan():
    root = ET.fromstring(draw.timeline_svg(TIMELINE))
    first, *steps = next(root.iter(f"{SVG}desc")).text.split("\n")
    assert first == "critical path, 4 steps: 10 µs compute + 195 µs communication"
    assert TIMELINE.makespan_s == pytest.approx(205e-6)
    assert steps[0] == "1. rank 1 · forward · star.py:16, 0.0 to 10.0 µs (10 µs long)"
    assert len(steps) == len(TIMELINE.critical_path)


def test_steps_that_are_alike_are_one_line():
    root = ET.fromstring(draw.timeline_svg(ring(4, steps=40)))
    _, *steps = next(root.iter(f"{SVG}desc")).text.split("\n")
    assert len(steps) == 1 and steps[0].startswith("1 to 40. rank 0 · 64000 bytes from rank 3")


BAR = ".rs-forward .rs-bar"  # the work of rank 1
HOVER = ["rank 1 · forward · star.py:16", "compute, 0.0 to 10.0 µs (10 µs long)"]
PATH = "critical path, 4 steps: 10 µs compute + 195 µs communication"
STEP = "1. rank 1 · forward · star.py:16, 0.0 to 10.0 µs (10 µs long)"


@in_browser
@needs_chromium
def test_a_reader_points_zooms_and_reads_the_critical_path(browser, tmp_path):
    shown(browser, tmp_path, draw.live_html(TIMELINE) + draw.live_html(ring(4)))
    wide = browser.ask(BARS)
    point(browser, BAR)
    assert set(HOVER) <= set(browser.ask(WORDS))
    browser.click("[data-do=in]")
    assert browser.ask(BARS)[0] == pytest.approx(1.5 * wide[0], rel=0.05)
    assert not set(HOVER) & set(browser.ask(WORDS))
    browser.click("[data-do=all]")
    assert browser.ask(BARS) == pytest.approx(wide, abs=0.6)
    browser.click(BAR)
    assert {PATH, STEP} <= set(browser.ask(WORDS))
    assert STEP in browser.ask("document.querySelector('svg').getAttribute('aria-label')")
    browser.click(BAR)
    assert not {PATH, STEP} & set(browser.ask(WORDS))
    assert browser.errors == [] and len(browser.requested()) == 1


@in_browser
@needs_chromium
def test_keys_do_what_the_pointer_does_and_reach_nobody_else(browser, tmp_path):
    shown(browser, tmp_path, draw.live_html(TIMELINE))
    browser.ask("addEventListener('keydown', () => { document.title = 'a key came' })")
    ticks = browser.ask("document.querySelector('.rs-axis').textContent")
    browser.press("Tab")
    assert browser.ask("document.activeElement.tagName") == "svg"
    browser.ask("document.title = ''")
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft"):
        browser.press(key)
    assert set(HOVER) <= set(browser.ask(WORDS))
    browser.press("+")
    assert browser.ask("document.querySelector('.rs-axis').textContent") != ticks
    browser.press("Enter")
    assert {PATH, STEP} <= set(browser.ask(WORDS))
    browser.press("0")
    assert browser.ask("document.querySelector('.rs-axis').textContent") == ticks
    assert browser.ask("document.title") == "" and browser.errors == []


@in_browser
@needs_chromium
def test_zoomed_bars_stay_where_their_times_are(browser, tmp_path):
    shown(browser, tmp_path, draw.live_html(ring(4)))
    browser.ask("document.querySelector('svg').focus()")
    for _ in range(9):
        browser.press("+")
    # 38 times as wide: a call of 65 of 390 µs has 38 / 6 of the room, up to the gap after it
    room = "(b => b.width)(document.querySelector('clipPath rect').getBBox()) - 2"
    share = 1.5**9 / 6
    for wide in browser.ask(BARS)[:5]:
        assert wide == pytest.approx(share * browser.ask(room), rel=0.005)


@in_browser
@needs_chromium
def test_a_file_with_the_script_is_live_where_a_browser_opens_it(browser, tmp_path):
    path = tmp_path / "run.svg"
    path.write_text(draw.live_svg(TIMELINE), encoding="utf-8")
    browser.open(path.as_uri())
    browser.click(BAR)
    assert {PATH, STEP} <= set(browser.ask(WORDS))
    assert browser.errors == []


@in_browser
@needs_chromium
def test_without_scripts_the_picture_is_whole(browser, tmp_path):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        shown(browser, tmp_path, draw.live_html(TIMELINE))
        assert browser.ask("document.querySelectorAll('[data-do], clipPath').length") == 0
        titles = browser.ask("[...document.querySelectorAll('title')].map(one => one.textContent)")
        assert "\n".join(HOVER) in "\n".join(titles)
        boxes = browser.ask(
            "['.rs-bar', '.rs-message path', '.rs-path path', '.rs-axis text', '.rs-words text']"
            ".map(css => [...document.querySelectorAll(css)].filter(one =>"
            "one.getBoundingClientRect().width > 0).length)"
        )
        assert min(boxes) > 0 and boxes[0] == len(browser.ask(BARS))
        assert browser.errors == []
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


@in_browser
@needs_chromium
@pytest.mark.parametrize("world_size", [4, 16])
def test_on_a_phone_the_box_is_swiped_and_all_words_can_be_read(browser, tmp_path, world_size):
    style = f"<style>{SITE_CSS.read_text()}</style>"
    box = '<main class="bd-article"><div class="cell_output"><div class="text_html">'
    picture = draw.live_html(star(world_size, work_s=1e-5))
    shown(browser, tmp_path, f"{box}{picture}</div></div></main>", head=style, width=380)
    assert browser.ask("document.documentElement.scrollWidth") == 380
    smallest = browser.ask(
        "Math.min(...[...document.querySelectorAll('svg text')].map(one =>"
        "one.getAttribute('font-size') * document.querySelector('svg').getScreenCTM().a))"
    )
    assert round(smallest, 1) >= 11
    times = browser.ask(
        "(b => b.scrollWidth / b.clientWidth)(document.querySelector('.text_html'))"
    )
    hint = browser.ask("getComputedStyle(document.querySelector('.text_html'), '::before').content")
    assert hint == f'"swipe: {times:.0f} times as wide"'
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
    x, y = browser.ask(
        f"(r => [r.left + r.width / 2, r.top + r.height / 2])"
        f"(document.querySelector('{BAR}').getBoundingClientRect())"
    )
    for kind, points in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
        browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
    browser.wait(f"{WORDS}.includes('star.py:16')")
    left, right = browser.ask(
        "(r => [r.left, r.right])(document.querySelector('g.rs-quiet:not(.rs-time) rect')"
        ".getBoundingClientRect())"
    )
    assert left >= 0 and right <= 380
    assert browser.errors == []
