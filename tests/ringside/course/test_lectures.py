"""The lectures: notebooks belong to their texts, run from the students' tree, say what is so."""

import ast
import base64
import importlib
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from ringside.course import lectures
from ringside.course.lectures import spoilers
from ringside.course.lectures.__main__ import main as command
from ringside.course.lectures.compare import differences
from ringside.course.predictions import in_notebook
from ringside.kit import VERSION

ROOT = Path(__file__).resolve().parents[3]
ALL = lectures.find(ROOT / "lectures")
nbformat = importlib.import_module("nbformat")

WHOLE = (
    """# %% [markdown] tags=["aims"]
# # Lecture 0: A small lecture
#
# After it you can
#
# - one
# - two
# - three

# %% [markdown] tags=["prerequisites", "plan"]
# Nothing.

# %% [markdown] tags=["problem"] meeting=1 minutes=70
# ## 1. A problem

# %% [markdown] tags=["derivation", "limits"]
# $$1 + 1 = 2$$

# %% tags=["ranks", "figure", "systems"]
assert ringside.run("one.py:one", 2).values == [1, 1]

# %% [markdown] tags=["systems"]
# They say 3 [2], and it is 2 [1].

"""
    + "".join(
        f"""# %% [markdown] tags=["question"]
# **Question {number}.** How much?
#
# <details><summary>Answer</summary>
#
# Two.
# </details>

# %%
assert 1 + 1 == 2

"""
        for number in range(1, 6)
    )
    + """# %% [markdown] tags=["reading"]
# ## References
#
# 1. One. 2020.
# 2. Two. 2021.
#
# Read next: [1].
"""
)

TINY = """# %% [markdown] slideshow={"slide_type": "slide"}
# # A small lecture

# %%
import random
from ringside import engine
print(random.random() < 2, engine.speed)
print(object())

# %% slideshow={"slide_type": "skip"}
engine.bytes_of("data/sizes.csv")

# %% slideshow={"slide_type": "skip"}
1 + 1
"""

ENGINE = """speed = 1

def bytes_of(path):
    return open(path).read()
"""


@pytest.fixture
def tiny(tmp_path):
    """A tree with one short lecture and a kit of one module."""
    (tmp_path / "lectures" / "data").mkdir(parents=True)
    (tmp_path / "ringside").mkdir()
    (tmp_path / "ringside" / "__init__.py").write_text("def run():\n    import ringside.engine\n")
    (tmp_path / "ringside" / "engine.py").write_text(ENGINE)
    (tmp_path / "lectures" / "data" / "sizes.csv").write_text("8\n")
    (tmp_path / "lectures" / "data" / "unread.csv").write_text("9\n")
    source = tmp_path / "lectures" / "00_tiny.py"
    source.write_text(TINY)
    return lectures.Lecture(source)


def each(items):
    return pytest.mark.parametrize("lecture", items, ids=[item.name for item in items])


def prose_and_code(lecture):
    """Yield each prose cell with all code above it; an answer's check stands right below it."""
    cells = lectures.read(lecture).cells
    code = ""
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        if cell.cell_type == "code":
            code += cell.source + "\n"
        elif "<details>" in cell.source:
            checks = [one.source for one in cells[cells.index(following) :][:2]]
            yield cell.source, code + "\n".join(checks)
        else:
            yield cell.source, code


# The builder


def test_two_builds_of_the_same_text_are_the_same_file(tiny):
    assert lectures.build(tiny)
    first = tiny.notebook.read_bytes()
    assert lectures.build(tiny, force=True)
    assert tiny.notebook.read_bytes() == first
    assert b"True" in first and b" at 0x" not in first


def test_a_notebook_is_stale_when_its_text_or_its_data_changes(tiny, monkeypatch):
    data = tiny.source.parent / "data"
    assert lectures.problems(tiny) == ["there is no executed notebook."]
    assert lectures.build(tiny) == "executed"
    assert lectures.problems(tiny) == [] and lectures.build(tiny) == ""

    (data / "unread.csv").write_text("10\n")
    (data / "new.csv").write_text("11\n")
    assert lectures.problems(tiny) == []

    (data / "sizes.csv").write_text("16\n")  # a function of the kit has read it
    changed = "lectures/data/sizes.csv has changed since it was executed."
    assert lectures.problems(tiny) == [changed]
    assert lectures.build(tiny) == "executed"
    assert nbformat.read(tiny.notebook, 4).cells[2].outputs[0].data["text/plain"] == "'16\\n'"

    tiny.source.write_text(TINY.replace("A small", "A shorter").replace("skip", "slide"))
    assert lectures.problems(tiny) == ["cell 0 differs from the text's."]
    before = nbformat.read(tiny.notebook, 4)
    with monkeypatch.context() as patched:
        builder = sys.modules[
            "ringside.course.lectures.build"
        ]  # the package has a function `build`
        patched.setattr(builder, "execute", lambda lecture: pytest.fail("executed"))
        assert "without being executed" in lectures.build(tiny)
    after = nbformat.read(tiny.notebook, 4)
    assert lectures.problems(tiny) == [] and "A shorter" in after.cells[0].source
    assert [one.get("outputs") for one in after.cells] == [
        one.get("outputs") for one in before.cells
    ]

    tiny.source.write_text(TINY.replace("1 + 1", "1 + 2"))
    assert lectures.build(tiny) == "executed"
    (data / "sizes.csv").unlink()
    assert lectures.problems(tiny) == [changed]

    by_hand = nbformat.read(tiny.notebook, 4)
    del by_hand.metadata["ringside"]
    nbformat.write(by_hand, tiny.notebook)
    assert lectures.problems(tiny) == ["its notebook doesn't say what it was executed with."]
    assert builder.must_execute(tiny, by_hand)


def test_a_change_of_the_kit_is_recorded_and_its_outputs_are_compared(tiny, capsys):
    def run(action):
        status = command([action, "--folder", str(tiny.source.parent)])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    lectures.build(tiny)
    kit = nbformat.read(tiny.notebook, 4).metadata["ringside"]["kit"]
    assert kit["version"] == VERSION and f"kit {VERSION}, code {kit['code']}\n" in run("check")[1]

    engine = tiny.tree / "ringside" / "engine.py"
    engine.write_text(ENGINE.replace("speed = 1", "speed = 2"))
    before = tiny.notebook.read_bytes()
    assert lectures.problems(tiny) == []
    assert f"code {kit['code']}, an earlier one\n" in run("check")[1]
    status, words = run("compare")
    assert status == 1 and tiny.notebook.read_bytes() == before
    assert "00_tiny, cell 1 ('import random'), output 1, stdout:" in words
    assert re.search(r"committed: 'True 1\\n.*\n *now: +'True 2\\n", words)
    assert "1 output differs" in words and "build --force 00_tiny" in words

    engine.write_text(f"{ENGINE}\nspare = 3\n")
    assert run("compare") == (0, "00_tiny: the same outputs\n")

    tiny.source.write_text(TINY.replace("1 + 1", "1 + 2"))
    status, words = run("compare")
    assert status == 1 and "cell 3 differs from the text's. Build it" in words


def test_only_a_picture_of_what_was_measured_may_differ():
    def picture(shade, size=(2, 3)):
        file = io.BytesIO()
        pixels = np.zeros((*size, 4))
        pixels[0, 0] = shade
        importlib.import_module("matplotlib.image").imsave(file, pixels, format="png")
        return base64.b64encode(file.getvalue()).decode()

    def notebook(png, words="a line", tags=(), revealed=3.0):
        data = {"image/png": png, "text/plain": words}
        output = nbformat.v4.new_output("display_data", data, metadata={"image/png": {"alt": "it"}})
        metadata = {"tags": list(tags), "revealed": {"00/x": revealed}}
        cell = nbformat.v4.new_code_cell("draw()", outputs=[output], metadata=metadata)
        return nbformat.v4.new_notebook(cells=[cell])

    def found(*pair):
        return list(differences(*pair))

    old, new = picture(0.25), picture(0.75)
    assert found(notebook(old), notebook(old)) == []
    size = "a picture of 3 x 2 pixels"
    assert found(notebook(old), notebook(new)) == [
        "cell 0 ('draw()'), output 1, image/png:\n"
        f"  committed: {size}\n  now:       {size}, of which 1 differ"
    ]
    assert "3 x 4 pixels" in found(notebook(old), notebook(picture(0.25, (4, 3))))[0]

    measured = {"tags": ["measured"]}
    assert found(notebook(old, **measured), notebook(new, **measured)) == []
    [one] = found(notebook(old, **measured), notebook(new, "a curve", **measured))
    assert "text/plain" in one and "'a line'" in one and "'a curve'" in one
    [one] = found(notebook(old), notebook(old, revealed=3.5))
    assert "reveal '00/x':" in one and "'3.0'" in one and "'3.5'" in one
    bare = notebook(old, **measured)
    bare.cells[0].outputs = []
    assert any("now:       none" in one for one in found(notebook(old, **measured), bare))


def test_a_cell_that_raises_is_named_and_nothing_is_written(tiny, capsys):
    tiny.source.write_text(TINY.replace("1 + 1", "1 / 0"))
    folder = str(tiny.source.parent)
    assert command(["build", "--folder", folder]) == 1
    assert re.search(r"cell 3 \('1 / 0'\)[\s\S]*ZeroDivisionError", capsys.readouterr().err)
    assert not tiny.notebook.exists()


def test_a_notebook_keeps_the_first_of_the_scripts_of_its_timelines(tiny):
    tiny.source.write_text(
        "# %%\nfrom IPython.display import HTML\n"
        "from ringside.draw.live import with_script\n"
        "one = HTML(with_script('<svg><g class=\"rs-axis\"></g></svg>'))\n"
        "one\n\n# %%\none\n"
    )
    pages = [cell.outputs[0].data["text/html"] for cell in lectures.execute(tiny).cells]
    assert [page.count("<script>") for page in pages] == [1, 0]
    assert all(page.startswith("<svg>") for page in pages)


def lacks(tiny, text, has_picture=True):
    """What a lecture of this text lacks, if the cell of its figure shows a picture."""
    tiny.source.write_text(text)
    executed = lectures.read(tiny)
    picture = nbformat.v4.new_output("display_data", {"image/png": ""})
    executed.cells[4]["outputs"] = [picture] if has_picture else []
    return lectures.missing(lectures.read(tiny), executed)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("# - three\n", "", 'cell 0 (aims) has no "you can"'),
        ('"prerequisites"', '"limits"', "no cell has the tag 'prerequisites'."),
        ("# ## 1. A problem", "# A problem", "cell 2 (problem) opens no section"),
        ("minutes=70", "minutes=71", "meeting 1 takes 71 minutes: at most 70 of its 75"),
        ("# $$1 + 1 = 2$$", "# $1 + 1 = 2$", "cell 3 (derivation) has no formula"),
        ("ringside.run(", "other.run(", "cell 4 (ranks) runs nothing on ranks."),
        ("say 3 [2], and it is 2 [1].", "say 3.", "cell 5 (systems) cites no reference, [n]."),
        ("Question 3.", "Question 4.", "cell 10 does not begin with **Question 3.**"),
        ("# Two.\n# </details>", "# Two.", "cell 6 has no answer in <details>"),
        ("assert 1 + 1", "1 + 1", "nothing below question 5 (cell 14) asserts"),
        ("# 2. Two. 2021.\n", "", "cited but not listed: [2]."),
        ("They say 3 [2],", "They say 3 [1],", "listed but not cited: [2]."),
        ("say 3 [2]", "say 3 [2].\n#\n# *Figure 2.* It", "its captions are of figures [2]"),
        ("# ## 1.", "# # 1.", "the first cell, and it alone, begins with the title"),
    ],
)
def test_what_a_lecture_lacks_is_named(tiny, old, new, words):
    assert lacks(tiny, WHOLE) == []
    assert any(one.startswith(words) for one in lacks(tiny, WHOLE.replace(old, new)))


def test_a_lecture_without_its_figure_is_not_whole(tiny):
    assert lacks(tiny, WHOLE, has_picture=False) == ["cell 4 (figure) shows no picture."]


def test_an_unknown_lecture_is_our_error(tiny, capsys):
    assert command(["build", "99", "--folder", str(tiny.source.parent)]) == 2
    assert "no lecture '99'" in capsys.readouterr().err


def test_a_table_has_numbers_text_and_gaps(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("# where it is from\nlayer,nbytes,time_s\nfc,8,0.5\nconv,16,\n")
    table = lectures.table(path)
    assert table["layer"].tolist() == ["fc", "conv"]
    assert table["nbytes"].tolist() == [8, 16] and table["nbytes"].dtype == int
    np.testing.assert_array_equal(table["time_s"], [0.5, np.nan])


# Sliders


class Bar:
    """Stands in for a timeline: something with a makespan, drawn as SVG."""

    def __init__(self, makespan_s):
        self.makespan_s = makespan_s


@pytest.fixture
def shown(monkeypatch):
    """What `explore` publishes, with timelines written as their makespan and the axis' end."""
    published = []
    monkeypatch.setattr("IPython.display.publish_display_data", lambda data: published.append(data))
    monkeypatch.setattr(
        "ringside.draw.timeline_svg", lambda one, until_s: f"<i>{one.makespan_s} of {until_s:g}</i>"
    )
    return published


def test_pictures_of_every_combination_wait_behind_the_sliders(shown):
    lectures.explore(
        lambda ranks, nbytes, alpha: Bar(ranks * nbytes + alpha),
        alt="{ranks} ranks, {nbytes} bytes, {alpha} s",
        same_scale=["ranks"],
        ranks=lectures.Knob([2, 4], start=4),
        nbytes=lectures.Knob([10, 1000], unit="bytes"),
        alpha=lectures.Knob([0, 7], live=True, label="latency"),
    )
    [data] = shown
    pictures = re.findall(r"<div( hidden)?><i>(.*?)</i></div>", data["text/html"])
    assert pictures == [
        (" hidden", "20 of 40"),  # the last slider turns fastest
        (" hidden", "2000 of 4000"),
        ("", "40 of 40"),
        (" hidden", "4000 of 4000"),
    ]
    assert re.findall(r'max="(\d+)" value="(\d+)".*?data-stops="(.*?)"', data["text/html"]) == [
        ("1", "1", "2|4"),
        ("1", "0", "10 bytes|1,000 bytes"),
    ]
    assert "<span>latency 0</span>" in data["text/html"]
    assert data["text/plain"] == "4 ranks, 10 bytes, 0 s"
    assert "application/vnd.jupyter.widget-view+json" in data


def test_figures_are_closed_as_they_are_drawn(shown):
    pyplot = importlib.import_module("matplotlib.pyplot")
    open_before = []

    def picture(n):
        open_before.append(len(pyplot.get_fignums()))
        figure, axes = pyplot.subplots(figsize=(1, 1))
        return axes if n else figure

    lectures.explore(picture, alt="{n} & more", n=lectures.Knob([0, 1, 2]))
    assert open_before == [0, 0, 0, 0]  # the last one is the live picture
    assert pyplot.get_fignums() == []
    assert re.findall('<img alt="(.*?)"', shown[0]["text/html"]) == [
        f"{n} &amp; more" for n in range(3)
    ]


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"n": lectures.Knob([1])}, "n has 1 values: a slider needs at least 2."),
        ({"n": lectures.Knob([1, 2], start=3)}, "n starts at 3, which is not among its values."),
        ({"n": lectures.Knob(range(7)), "m": lectures.Knob(range(7))}, "49 pictures would be"),
    ],
)
def test_knobs_that_cannot_be_turned_are_refused(shown, knobs, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        lectures.explore(lambda **_: Bar(1), alt="", **knobs)
    assert shown == []


# Every lecture


@each(ALL)
def test_the_notebook_belongs_to_the_text(lecture):
    assert lectures.problems(lecture) == [], "run: python -m ringside.course.lectures build"


@pytest.mark.slow
def test_a_lecture_runs_from_the_students_tree_with_the_same_outputs(capsys):
    """The shortest one; `make compare` does it with all of them."""
    assert command(["compare", "00", "--folder", str(ROOT / "lectures")]) == 0
    assert "00_why_parallel: the same outputs" in capsys.readouterr().out


@each(ALL)
def test_what_it_takes_from_the_kit_is_there(lecture):
    """A name that is gone is found without an execution, also in programs that a cell writes."""
    for cell in lectures.read(lecture).cells:
        if cell.cell_type == "code":
            assert list(gone(cell.source)) == [], cell.source


def gone(code):
    """Yield what a cell imports from the kit, or names as ringside.NAME, and the kit hasn't."""
    for node in ast.walk(ast.parse(re.sub(r"^\s*[%!].*$", "", code, flags=re.M))):
        if isinstance(node, ast.Import):
            names = [(one.name, "") for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module, one.name) for one in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = [(node.value.id, node.attr)]
        else:
            continue
        for module, name in names:
            if module.split(".")[0] == "ringside" and not is_there(module, name):
                yield f"{module}.{name}".rstrip(".")


def is_there(module, name):
    """Whether a module can be imported, and has the name or a module of that name."""
    try:
        there = importlib.import_module(module)
        return not name or hasattr(there, name) or bool(importlib.import_module(f"{module}.{name}"))
    except ImportError:
        return False


def test_a_name_that_the_kit_has_not_is_found():
    assert list(gone("%%writefile it.py\nfrom ringside import run, ran\n")) == ["ringside.ran"]
    assert list(gone("import ringside.timings\nringside.replayed(1)")) == [
        "ringside.timings", "ringside.replayed",
    ]  # fmt: skip
    assert list(gone("import numpy\nfrom ringside import timing\nringside.Machine.load(x)")) == []


@each(ALL)
def test_cells_are_short_and_every_cell_has_a_slide_type(lecture):
    kinds = {"slide", "subslide", "fragment", "skip", "notes", "-"}
    for cell in lectures.read(lecture).cells:
        lines = [line for line in cell.source.splitlines() if line.strip()]
        assert cell.metadata.get("slideshow", {}).get("slide_type") in kinds, cell.source
        if cell.cell_type == "code":
            assert len(lines) <= LONGEST_CELL, f"{len(lines)} lines:\n{cell.source}"


LONGEST_CELL = 17  # the magic and the imports among them


@each(ALL)
def test_it_has_the_parts_that_every_lecture_has(lecture):
    """CONTRIBUTING.md lists them."""
    executed = nbformat.read(lecture.notebook, as_version=4)
    assert lectures.missing(lectures.read(lecture), executed) == []


@each(ALL)
def test_lectures_import_ringside_alone(lecture):
    ours = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"ringside"}
    imported = re.findall(r"^\s*(?:from|import) (\w+)", lecture.source.read_text(), flags=re.M)
    assert ours.isdisjoint(imported)


@each(ALL)
def test_words_are_those_of_the_style(lecture):
    for prose, _ in prose_and_code(lecture):
        found = re.search(r"\b(simply|just|obviously|trivially)\b|!(?!\[)", prose, flags=re.I)
        assert not found, f"{found.group()!r} in:\n{prose}"
        assert not re.search("[\U0001f300-\U0001faff\u2600-\u27bf]", prose), prose


@each(ALL)
def test_every_figure_has_a_description(lecture):
    for cell in nbformat.read(lecture.notebook, as_version=4).cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                assert len(output.metadata["image/png"]["alt"]) > 40, cell.source
            if "ringside-explore" in output.get("data", {}).get("text/html", ""):
                assert len(output.data["text/plain"]) > 40, cell.source


NUMBER = re.compile(r"(?<![\w.\[])\d[\d,]*(?:\.\d+)?(?![\w\]])")
NOT_CLAIMS = [
    r"^## \d+\.",  # a section's number
    r"```.*?```",
    r"\$\$.*?\$\$",
    r"\$[^$]*\$",
    r"`[^`]*`",
    r"\*Predict.*?\*(?!\*)",
    r"NCCL [\d.]+",
    r"\b[Ff]igures? \d+",
    r"^.*<details>",
]


def claims(prose):
    """Yield the numbers that a text states as facts: not formulas, code, years, set tasks."""
    if prose.startswith("## References"):
        return
    for pattern in NOT_CLAIMS:
        prose = re.sub(pattern, " ", prose, flags=re.S)
    for number in NUMBER.findall(prose):
        number = number.rstrip(",")
        value = float(number.replace(",", ""))
        if "." in number or (value > 16 and not 1980 <= value <= 2030):
            yield number


def is_asserted(number, code):
    """Whether an assertion holds the number; 74 % is asserted as 0.74."""
    assertions = "\n".join(re.findall(r"assert.*(?:\n +.*|\n\))*", code)).replace("_", "")
    plain = number.replace(",", "")
    forms = {plain, f"{float(plain) / 100:g}", f"{float(plain) / 100:.2f}"}
    return any(re.search(rf"(?<![\d.]){re.escape(form)}", assertions) for form in forms)


def has_checked(cells):
    return any(in_notebook.has_tag(cell, in_notebook.CHECKED) for cell in cells)


def unchecked(cells):
    """Yield each number of a prose cell that no checked cell below asserts.

    A number that is quoted again may have been checked where it stood first; an answer to a
    question is checked right below it.
    """
    quoted = set()
    for place, cell in enumerate(cells):
        if cell.cell_type != "markdown":
            continue
        below = [one for one in cells[place:] if in_notebook.has_tag(one, in_notebook.CHECKED)]
        if "<details>" in cell.source:
            below += [one for one in cells[place + 1 : place + 3] if one.cell_type == "code"]
        above = [one for one in cells[:place] if in_notebook.has_tag(one, in_notebook.CHECKED)]
        here = set(claims(cell.source))
        for number in sorted(here):
            checks = below + (above if number in quoted else [])
            if not is_asserted(number, "\n".join(one.source for one in checks)):
                yield number, cell.source
        quoted |= here


@each(ALL)
def test_every_number_in_prose_is_asserted(lecture):
    cells = [one for one in lectures.read(lecture).cells if not in_notebook.has_tag(one, "plan")]
    if has_checked(cells):
        for number, prose in unchecked(cells):
            pytest.fail(f"{number} is asserted in no checked cell below:\n{prose}")
        return
    for prose, code in prose_and_code(lecture):
        for number in claims(prose):
            assert is_asserted(number, code), f"{number} is not asserted above:\n{prose}"


def compares_nothing(code):
    """Yield the assertions of a cell in which no computed value stands."""
    for one in ast.walk(ast.parse(re.sub(r"^%.*$", "", code, flags=re.M))):
        if isinstance(one, ast.Assert) and not any(
            isinstance(part, ast.Name | ast.Attribute | ast.Call) for part in ast.walk(one.test)
        ):
            yield ast.unparse(one)


@each(ALL)
def test_no_checked_cell_asserts_a_literal_against_itself(lecture):
    for cell in lectures.read(lecture).cells:
        if in_notebook.has_tag(cell, in_notebook.CHECKED):
            assert cell.cell_type == "code" and "assert" in cell.source, cell.source
            assert list(compares_nothing(cell.source)) == []


@each(ALL)
def test_no_answer_stands_between_a_prompt_and_what_reveals_it(lecture):
    executed = nbformat.read(lecture.notebook, as_version=4)
    assert list(spoilers.given_away(executed.cells)) == []


@each(ALL)
def test_who_asks_for_predictions_asks_in_prompts_alone(lecture):
    cells = lectures.read(lecture).cells
    if any(in_notebook.guessed_in(cell) for cell in cells):
        for cell in cells:
            if cell.cell_type == "markdown":
                assert not re.search(r"\*Predict\b", cell.source), cell.source


def test_no_lecture_refers_to_one_that_is_not_there():
    there = {int(lecture.name[:2]) for lecture in ALL}
    for lecture in ALL:
        text = (ROOT / "lectures" / f"{lecture.name}.py").read_text(encoding="utf-8")
        named = re.findall(r"[Ll]ectures?\s+(\d+)(?:\s+(?:to|and)\s+(\d+))?", text)
        assert {int(one) for pair in named for one in pair if one} <= there, lecture.name
