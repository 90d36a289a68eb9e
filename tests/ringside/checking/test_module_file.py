"""`%%module ring.py`: what running a cell does to a file, in every front end."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ringside.checking import cell_records, module_file, notebook
from ringside.checking.module_file import ModuleFileError

STUB = "def f(x):\n    raise NotImplementedError\n"
WORK = "def f(x):\n    return x\n"
OTHER = "def f(x):\n    return -x\n"
GIVES_WAY = "ring.py stays as it is: this cell is as it was handed out"

Write = Callable[[str], str]


def released(file: str = "ring.py", stub: str = STUB, first: str = "%%module") -> dict[str, Any]:
    """A cell as nbgrader releases it, its checksum by nbgrader itself."""
    from nbformat import from_dict
    from nbgrader.utils import compute_checksum

    marks = {"grade": False, "grade_id": Path(file).stem, "locked": False, "solution": True}
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "id": Path(file).stem,
        "metadata": {"nbgrader": marks},
        "outputs": [],
        "source": f"{first} {file}\n{stub.rstrip()}",
    }
    marks["checksum"] = compute_checksum(from_dict(cell))
    return cell


def book(*cells: dict[str, Any]) -> str:
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a00.ipynb").write_text(book(released()))
    return tmp_path


@pytest.fixture
def write(folder: Path) -> Write:
    return lambda text: module_file.write(folder, "ring.py", text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_an_untouched_cell_gives_way_to_work_in_the_file(folder: Path, write: Write) -> None:
    for there in (WORK.encode(), b"\xef\xbb\xbf" + WORK.replace("\n", "\r\n").encode(), b"\xff\0"):
        (folder / "ring.py").write_bytes(there)
        assert write(STUB).startswith(GIVES_WAY)
        assert (folder / "ring.py").read_bytes() == there
    assert names(folder) == ["a00.ipynb", "ring.py"]


def test_it_gives_way_also_to_work_that_the_cell_wrote_before_it_was_lost(
    folder: Path, write: Write
) -> None:
    assert write(STUB) == "Wrote ring.py." and write(WORK) == "Wrote ring.py."
    assert write(STUB).startswith(GIVES_WAY)  # the notebook was opened again, unsaved
    assert (folder / "ring.py").read_text() == WORK


@pytest.mark.parametrize("first", ["%%module", "%%writefile"])
def test_the_checksum_tells_it_whatever_is_saved_in_the_notebook(
    folder: Path, write: Write, first: str
) -> None:
    # An older release, whose cell in the browser has the newer first line; and on the disk is an
    # edit that the browser doesn't know, or the other way round.
    saved = released(first=first) | {"source": "print('half an edit')"}
    (folder / "a00.ipynb").write_text(book(saved))
    (folder / "damaged.ipynb").write_text("{")
    (folder / "ring.py").write_text(WORK)
    assert write(STUB).startswith(GIVES_WAY)
    assert (folder / "ring.py").read_text() == WORK


def test_without_a_notebook_an_unfinished_cell_gives_way_to_a_finished_file(
    folder: Path, write: Write
) -> None:
    (folder / "a00.ipynb").unlink()
    (folder / "ring.py").write_text(WORK)
    assert write(STUB).startswith(GIVES_WAY)
    (folder / "ring.py").write_text(STUB.replace("f(x)", "f(y)"))
    assert "kept as ring.py.before-cell-1" in write(STUB)


def test_a_changed_cell_is_written_and_the_loser_is_kept(folder: Path, write: Write) -> None:
    (folder / "ring.py").write_text(WORK)
    (folder / "ring.py.before-cell-1").write_text("earlier")
    assert write(OTHER) == "Wrote ring.py. What was there is kept as ring.py.before-cell-2."
    assert (folder / "ring.py").read_text() == OTHER
    assert (folder / "ring.py.before-cell-2").read_text() == WORK
    assert (folder / "ring.py.before-cell-1").read_text() == "earlier"


def test_run_all_again_and_again_leaves_nothing_behind(folder: Path, write: Write) -> None:
    assert write(STUB) == "Wrote ring.py."
    for text in (WORK, OTHER, WORK):
        assert write(text) == "Wrote ring.py."
        assert write(text.rstrip()) == "ring.py holds this already."
        assert (folder / "ring.py").read_text() == text
    assert names(folder) == ["a00.ipynb", "ring.py"]


def test_a_cell_that_was_not_changed_gives_way_to_a_file_that_was(
    folder: Path, write: Write
) -> None:
    write(WORK)
    (folder / "ring.py").write_text(OTHER)
    assert "it was changed since this cell wrote it" in write(WORK)
    assert (folder / "ring.py").read_text() == OTHER
    assert "kept as ring.py.before-cell-1" in write(WORK + "# changed\n")
    assert (folder / "ring.py.before-cell-1").read_text() == OTHER


def test_what_a_sync_wrote_is_a_cells_text(folder: Path, write: Write) -> None:
    (folder / "a00.ipynb").write_text(book(released() | {"source": f"%%module ring.py\n{WORK}"}))
    notebook.write_files(notebook.differences(folder))
    assert write(OTHER) == "Wrote ring.py."
    assert names(folder) == ["a00.ipynb", "ring.py"]


def test_line_ends_and_a_byte_order_mark_are_no_difference(folder: Path, write: Write) -> None:
    windows = b"\xef\xbb\xbf" + WORK.replace("\n", "\r\n").encode()
    (folder / "ring.py").write_bytes(windows)
    assert write(WORK) == "ring.py holds this already."
    assert (folder / "ring.py").read_bytes() == windows
    assert write(OTHER.replace("\n", "\r\n")) == "Wrote ring.py."
    assert (folder / "ring.py").read_bytes() == OTHER.encode()


@pytest.mark.parametrize(
    "file", ["../ring.py", "/tmp/ring.py", "sub/ring.py", "ring", "", "a b.py", ".py", "-a ring.py"]
)
def test_a_cell_names_a_module_of_its_folder(folder: Path, file: str) -> None:
    with pytest.raises(ModuleFileError, match="is no module's file: name one in this folder"):
        module_file.write(folder, file, WORK)
    assert names(folder) == ["a00.ipynb"] and not (folder.parent / "ring.py").exists()


def test_an_empty_cell_writes_nothing(folder: Path, write: Write) -> None:
    (folder / "ring.py").write_text(WORK)
    for text in ("", "\n", "  \n\n", "\ufeff\n"):
        with pytest.raises(ModuleFileError, match=r"the cell is empty: ring.py stays"):
            write(text)
    with pytest.raises(ModuleFileError, match="half a character"):
        write("x = '\ud800'\n")
    assert (folder / "ring.py").read_text() == WORK


def test_what_somebody_put_there_on_purpose_is_not_replaced(folder: Path, write: Write) -> None:
    path, elsewhere = folder / "ring.py", folder / "mine.txt"
    elsewhere.write_text(WORK)
    path.symlink_to(elsewhere)
    assert write(STUB).startswith(GIVES_WAY)
    with pytest.raises(ModuleFileError, match=r"ring.py is a link to .*mine\.txt: nothing was"):
        write(OTHER)
    assert path.is_symlink() and elsewhere.read_text() == WORK
    elsewhere.unlink()
    with pytest.raises(ModuleFileError, match="is a link to"):
        write(OTHER)
    path.unlink()
    path.write_text(WORK)
    path.chmod(0o444)
    with pytest.raises(ModuleFileError, match=r"ring.py is read-only: nothing was written"):
        write(OTHER)
    assert path.read_text() == WORK and "ring.py.before-cell-1" not in names(folder)
    path.unlink()
    path.mkdir()
    with pytest.raises(ModuleFileError, match=r"ring.py is a folder here"):
        write(OTHER)


def test_a_folder_that_cant_be_written_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / ".ringside").write_text("a file where the record's folder would be")
    with pytest.raises(ModuleFileError, match=r"ring.py can't be written: File exists"):
        module_file.write(tmp_path, "ring.py", WORK)
    assert not (tmp_path / "ring.py").exists()


def test_of_two_kernels_one_waits_for_the_other(folder: Path) -> None:
    ends: list[str] = []
    with cell_records.record(folder):
        other = threading.Thread(
            target=lambda: ends.append(module_file.write(folder, "ring.py", OTHER))
        )
        other.start()
        other.join(0.2)
        assert not ends and not (folder / "ring.py").exists()
    other.join()
    assert ends == ["Wrote ring.py."] and (folder / "ring.py").read_text() == OTHER


# -- in a kernel --------------------------------------------------------------------------------

Run = Callable[[str], str]


@pytest.fixture
def run(folder: Path) -> Iterator[Run]:
    """Send a cell to a kernel, as JupyterLab and VS Code do: the notebook isn't saved for it."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(cwd=str(folder), env={**os.environ})

    def send(source: str) -> str:
        shown: list[str] = []

        def hook(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                shown.append(content["text"])
            elif message["msg_type"] == "error":
                shown.append(f"{content['ename']}: {content['evalue']}")

        client.execute_interactive(source, output_hook=hook, stop_on_error=False, timeout=120)
        return "".join(shown)

    try:
        yield send
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_no_way_of_running_a_notebook_destroys_a_module(folder: Path, run: Run) -> None:
    path, stub = folder / "ring.py", f"%%module ring.py\n{STUB}"
    path.write_text(WORK)
    # Without the extension nothing can be written.
    assert "Cell magic `%%module` not found" in run(stub)
    assert path.read_text() == WORK
    run("%load_ext ringside")
    assert run(stub).startswith(GIVES_WAY)
    assert run("import ring; print(ring.f(3))") == "3\n"  # the notebook goes on with the file
    assert "before-cell-1" in run(f"%%module ring.py\n{OTHER}")
    assert "folder" in run(f"%%module ../ring.py\n{OTHER}")
    assert "UsageError" in run("%%module ring.py\n  ")
    assert path.read_text() == OTHER
    assert (folder / "ring.py.before-cell-1").read_text() == WORK
    # The whole notebook in a process of its own, as `jupyter nbconvert --execute` runs it.
    from nbclient import NotebookClient
    from nbformat import from_dict

    load = {"cell_type": "code", "execution_count": None, "id": "load", "metadata": {}}
    load |= {"outputs": [], "source": "%load_ext ringside"}
    cells = json.loads(book(load, released()))
    done = NotebookClient(from_dict(cells), resources={"metadata": {"path": str(folder)}}).execute()
    assert done.cells[1].outputs[0].text.startswith(GIVES_WAY)
    assert path.read_text() == OTHER
