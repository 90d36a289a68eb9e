"""The course's pages and slides: built once, then opened in a browser, on a screen and a phone."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from ringside.course import lectures
from ringside.course.lectures.__main__ import main
from tests.browser import CHROMIUM, Browser

ROOT = Path(__file__).resolve().parents[3]
NAMES = [lecture.name for lecture in lectures.find(ROOT / "lectures")]
PACKAGES = ("mathjax", "myst_nb", "pydata_sphinx_theme", "sphinx_revealjs")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f'not installed: {MISSING}; see "site"')
in_browser = pytest.mark.browser
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
PHONE = {"width": 390, "height": 844}


def command(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ringside.course.lectures", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site with its slides, as `make site` makes it."""
    out = tmp_path_factory.mktemp("site")
    done = command("site", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "site"


def pages(built: Path) -> list[str]:
    found = [path.relative_to(built).as_posix() for path in built.rglob("*.html")]
    return sorted(path for path in found if not path.startswith(("slides/", "_static/")))


# What needs no browser


@pytest.mark.release
def test_every_handout_and_text_has_its_page(built: Path) -> None:
    expected = {f"lectures/{name}.html" for name in NAMES}
    expected |= {f"slides/{name}.html" for name in NAMES}
    expected |= {f"assignments/{path.name}.html" for path in (ROOT / "assignments").glob("a??_*")}
    expected |= {"index.html", "search.html", "kit/contributing.html", "kit/changelog.html"}
    expected |= {f"kit/{path.stem}.html" for path in (ROOT / "docs").glob("*.md")}
    assert {page for page in expected if not (built / page).is_file()} == set()


@pytest.mark.release
def test_pages_and_slides_load_nothing_from_elsewhere(built: Path) -> None:
    loads = re.compile(r'<(?:script|img|link|iframe)\b[^>]*?(?:src|href)="(?:https?:)?//[^"]*"')
    for path in built.rglob("*.html"):
        found = loads.findall(path.read_text(encoding="utf-8"))
        assert not found, f"{path.name}: {found}"


TINY = """# %% [markdown] slideshow={"slide_type": "slide"}
# # Lecture 0: Tiny
#
# LINK

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
open("executed.txt", "w").close()

# %% slideshow={"slide_type": "slide"}
# %%writefile one.py
one = 1
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A tree with one lecture, whose notebook has not been executed."""
    lecture = lectures.Lecture(tmp_path / "lectures" / "00_tiny.py")
    lecture.source.parent.mkdir()
    lecture.source.write_text(TINY)
    notebook = lectures.read(lecture)
    notebook.cells[2].outputs = [
        nbformat.v4.new_output("stream", name="stdout", text="Writing one.py")
    ]
    nbformat.write(notebook, lecture.notebook)
    return tmp_path


def test_a_link_that_leads_nowhere_is_an_error_and_nothing_is_executed(tiny: Path) -> None:
    path = tiny / "lectures" / "00_tiny.ipynb"
    path.write_text(path.read_text().replace("LINK", "See [that](nowhere.ipynb)."))
    done = command("site", cwd=tiny)
    assert done.returncode == 1
    assert re.search(r"^LectureError: Sphinx warned:\n.*00_tiny.*nowhere\.ipynb", done.stderr)
    assert not list(tiny.rglob("executed.txt"))


def test_slides_leave_out_hidden_code_and_what_writing_a_file_says(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = str(tiny / "lectures"), tiny / "build"
    assert main(["slides", "--folder", folder, "--out", str(out)]) == 0
    slides = (out / "slides" / "00_tiny.html").read_text()
    assert "Tiny" in slides and "executed.txt" not in slides and "Writing one.py" not in slides

    (tiny / "lectures" / "00_tiny.ipynb").unlink()
    assert main(["slides", "--folder", folder, "--out", str(out)]) == 1
    assert "00_tiny has not been executed: build it first." in capsys.readouterr().err


# In a browser


@pytest.fixture(scope="module")
def address(built: Path) -> Iterator[str]:
    """Where the built site is served."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            """Say nothing."""

    handler = functools.partial(Handler, directory=str(built))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as one:
        yield one


def typeset(browser: Browser) -> None:
    """Wait until every equation is drawn."""
    browser.wait("typeof MathJax === 'undefined' || MathJax.startup.promise.then(() => true)")


PICTURES = """
[...document.querySelectorAll('article img, .reveal img')]
  .filter(one => !(one.naturalWidth > 0 && one.alt.length > 40))
  .map(one => one.outerHTML.slice(0, 200))
"""


@pytest.mark.release
@in_browser
@needs_chromium
def test_every_page_fits_a_phone_and_shows_its_equations_and_pictures(
    built: Path, address: str, browser: Browser
) -> None:
    for page in pages(built):
        browser.open(f"{address}/{page}", **PHONE)
        typeset(browser)
        assert browser.errors == [], page
        assert browser.ask("document.documentElement.scrollWidth") <= PHONE["width"], page
        drawn, wanted, wrong = browser.ask(
            "['.math > mjx-container', '.math', '[data-mjx-error]']"
            ".map(one => document.querySelectorAll(one).length)"
        )
        assert (drawn, wrong) == (wanted, 0), page
        assert browser.ask(PICTURES) == [], page
        assert all(one.startswith((address, "data:")) for one in browser.requested()), page


@pytest.mark.release
@in_browser
@needs_chromium
def test_search_finds_a_word_of_a_lecture(address: str, browser: Browser) -> None:
    browser.open(f"{address}/search.html?q=incast")
    links = "[...document.querySelectorAll('#search-results a')].map(one => one.href)"
    assert browser.wait(f"{links}.some(link => link.includes('lectures/03_allreduce.html'))")
    assert browser.errors == []


@pytest.mark.release
@in_browser
@needs_chromium
def test_the_switch_makes_a_page_and_its_timelines_dark(address: str, browser: Browser) -> None:
    browser.open(f"{address}/lectures/03_allreduce.html")
    brightness = r"""(() => {
      const colours = [getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector('svg.ringside .rs-paper')).fill];
      return colours.map(one => Math.max(...one.match(/\d+/g).slice(0, 3)));
    })()"""
    assert min(browser.ask(brightness)) > 240
    browser.ask("document.querySelector('.theme-change-button[data-mode=dark]').click()")
    assert browser.ask("document.documentElement.dataset.theme") == "dark"
    assert max(browser.ask(brightness)) < 60
    assert browser.errors == []


TURN = """(knob => {
  const all = document.querySelector('.ringside-explore');
  const input = all.querySelectorAll('input')[knob];
  input.value = +input.value + 1 > +input.max ? 0 : +input.value + 1;
  input.dispatchEvent(new Event('input', {bubbles: true}));
  const seen = [...all.lastElementChild.children].filter(one => !one.hidden);
  return [seen.length, seen[0].getBoundingClientRect().height, seen[0].innerHTML,
    input.nextElementSibling.textContent];
})"""


@pytest.mark.release
@in_browser
@needs_chromium
@pytest.mark.parametrize(
    ("page", "knobs", "first", "third"),
    [
        ("lectures/03_allreduce", (0, 0, 1, 2), "recursive doubling", "4"),
        ("slides/05_ddp", (0, 0, 1, 1), "12", "50 µs"),
    ],
)
def test_a_slider_changes_the_picture_without_a_kernel(
    page: str, knobs: tuple[int, ...], first: str, third: str, address: str, browser: Browser
) -> None:
    browser.open(f"{address}/{page}.html")
    if page.startswith("slides"):
        browser.wait("Reveal.isReady()")
        browser.ask(
            "(one => Reveal.slide(one.h, one.v, 99))(Reveal.getIndices("
            "document.querySelector('.ringside-explore').closest('section')))"
        )
    seen = [browser.ask(f"{TURN}({knob})") for knob in knobs]
    assert {count for count, *_ in seen} == {1}
    assert min(height for _, height, *_ in seen) > 100
    assert len({picture for _, _, picture, _ in seen}) == 4
    assert seen[0][3] == first and seen[2][3] == third
    assert browser.errors == []


@pytest.mark.release
@in_browser
@needs_chromium
@pytest.mark.parametrize("name", NAMES)
def test_slides_open_as_a_file_and_can_be_turned(name: str, built: Path, browser: Browser) -> None:
    browser.open((built / "slides" / f"{name}.html").as_uri())
    browser.wait("Reveal.isReady()")
    typeset(browser)
    assert browser.ask("Reveal.getTotalSlides()") > 10
    assert browser.ask("document.querySelectorAll('mjx-container').length") > 5
    assert browser.ask("document.querySelectorAll('[data-mjx-error]').length") == 0
    assert browser.ask(PICTURES) == []
    wide = browser.ask(
        "Reveal.getSlides().map(one => { const at = Reveal.getIndices(one);"
        "Reveal.slide(at.h, at.v, 99); return [one.scrollWidth - one.clientWidth, at.h, at.v] })"
        ".filter(one => one[0] > 0)"
    )
    assert wide == []
    assert browser.errors == []
