"""The recipe of the kit's images; and, where `make image` has left them, the images themselves.

Building takes minutes, so no test builds: `make image` does (`BASE=here` where no registry of
images is reached). Without its images the tests marked `container` are skipped, and say so.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from autograder.course.secret import PUBLIC_SECRET
from autograder.course.secret import VARIABLE as SECRET
from autograder.publish import bundle
from containers import build

ROOT = Path(__file__).resolve().parents[1]
RECIPE = (ROOT / "containers" / "Containerfile").read_text()
STAGES = re.findall(r"^FROM (\S+) AS (\w+)$", RECIPE, re.MULTILINE)


def listed(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


# -- The recipe ------------------------------------------------------------------


def test_the_images_hold_the_versions_that_the_tests_run_with() -> None:
    pinned, packages = listed("constraints.txt"), listed("containers/packages.txt")
    both = pinned.keys() & packages.keys()
    assert {name: packages[name] for name in both} == {name: pinned[name] for name in both}
    wanted = [Requirement(line) for line in build.requirements()]
    assert {requirement.name for requirement in wanted} <= packages.keys()
    for requirement in wanted:
        assert packages[requirement.name] in requirement.specifier


def test_the_images_hold_nothing_of_cuda_and_no_tools_for_developers() -> None:
    packages = listed("containers/packages.txt")
    assert not [name for name in packages if name.startswith(("nvidia", "cuda", "triton"))]
    assert not {"ruff", "mypy", "sphinx", "hypothesis"} & packages.keys()


def test_every_image_runs_as_the_user_that_hubs_expect() -> None:
    for target in ("student", "grader", "devcontainer"):
        stage = RECIPE.split(f" AS {target}\n")[1].split("\nFROM ")[0]
        assert re.findall(r"^USER (\w+)$", stage, re.MULTILINE)[-1] == "jovyan"
    assert "--uid 1000 --gid users" in RECIPE and "NB_UID=1000 NB_GID=100" in RECIPE
    assert "EXPOSE 8888" in RECIPE


def test_students_get_the_bundle_and_nothing_else_of_the_kit() -> None:
    stage = RECIPE.split(" AS student\n")[1].split("\nFROM ")[0]
    copied = re.findall(r"^COPY (.*)$", stage, re.MULTILINE)
    assert copied == ["--from=tree /opt/ringside/students /opt/ringside/kit"]
    assert "autograder bundle --to /opt/ringside/students" in RECIPE


def test_a_stage_is_built_on_one_above_it() -> None:
    known = {"${BASE}", "scratch"}
    for base, name in STAGES:
        assert base in known, f"{name} is built on {base}"
        known.add(name)


def let_in() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"  # all is left out but what is named
    return [line[1:] for line in lines if line.startswith("!")]


def test_what_is_copied_into_an_image_is_named_and_holds_no_secret() -> None:
    names = let_in()
    for name in (
        *bundle.FOLDERS,
        "assignments",
        *bundle.FILES,
        "autograder",
        "solutions",
        "pyproject.toml",
    ):
        assert any(Path(name).parts[0].startswith(each.rstrip("*")) for each in names), name
    for never in (".git", ".venv", "build", "course_secret.txt", "tests"):
        assert never not in names
    left_out = (ROOT / ".dockerignore").read_text().splitlines()
    assert {"**/course_secret.txt", "**/gradebook.db*", "**/run.json", "**/.*"} <= {*left_out}
    assert left_out.index("**/.*") > left_out.index("!solutions")  # the last that fits decides


def test_the_devcontainer_names_what_is_there() -> None:
    found = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    folder = ROOT / ".devcontainer"
    assert (folder / found["build"]["dockerfile"]).resolve() == ROOT / "containers/Containerfile"
    assert (folder / found["build"]["context"]).resolve() == ROOT
    assert found["build"]["target"] in {name for _, name in STAGES}
    assert set(found["build"]["args"]) <= set(re.findall(r"^ARG (\w+)", RECIPE, re.MULTILINE))
    assert found["remoteUser"] == "jovyan"


def test_apptainers_definition_reads_what_make_image_writes() -> None:
    text = (ROOT / "containers" / "ringside.def").read_text()
    header = dict(re.findall(r"^(\w+): (.*)$", text, re.MULTILINE))
    assert header == {"Bootstrap": "{{ kind }}", "From": "{{ archive }}"}
    arguments = dict(re.findall(r"^    (\w+)=(\S+)$", text, re.MULTILINE))
    assert arguments == {"kind": "oci-archive", "archive": "build/image/ringside-student.tar"}
    assert ROOT / arguments["archive"] == build.OUT / "ringside-student.tar"
    sections = re.findall(r"^%(\w+)$", text, re.MULTILINE)
    assert sections == ["arguments", "environment", "test"]


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="needs shellcheck: run `make system`")
def test_shellcheck_finds_nothing_in_the_images_programs() -> None:
    files = [str(ROOT / "containers" / name) for name in ("start", "install-kit")]
    found = subprocess.run(["shellcheck", *files], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


# -- What `make image` asks for ----------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    calls: list[list[str]] = []
    monkeypatch.setattr(build.subprocess, "run", lambda words, **_: calls.append(list(words)))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "12345")
    return calls


@pytest.mark.parametrize("engine", build.ENGINES)
def test_each_engine_gets_the_target_the_wheels_and_the_time(
    asked: list[list[str]], engine: str
) -> None:
    build.build(engine, "student", "localhost/base")
    [words] = asked
    text = " ".join(words)
    assert words[:2] == [engine, "build"] and words[-1] == str(ROOT)
    assert "--target student --tag ringside-student" in text
    assert f"--build-context wheels={build.WHEELS}" in text
    assert "--build-arg BASE=localhost/base" in text and "SOURCE_DATE_EPOCH=12345" in text
    assert ("--timestamp 12345" in text) == (engine != "docker")


def test_wheels_of_other_versions_go_and_a_pytorch_for_gpus_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "WHEELS", tmp_path)
    for name in ("numpy-2.4.6-cp311-x.whl", "numpy-2.4.5-cp311-x.whl", "six-1.17.0-py3-none.whl"):
        (tmp_path / name).touch()
    build.keep({"numpy==2.4.6"})
    assert [path.name for path in tmp_path.iterdir()] == ["numpy-2.4.6-cp311-x.whl"]
    with (tmp_path / "torch-2.13.0-cp311-x.whl").open("wb") as wheel:
        wheel.truncate(900_000_000)
    with pytest.raises(build.BuildError, match=r"has 900 MB: it is a build for GPUs. .*TORCH_INDE"):
        build.keep({"numpy==2.4.6", "torch==2.13.0"})


def test_a_wheels_name_tells_its_line() -> None:
    assert build.pin(Path("typing_extensions-4.16.0-py3-none-any.whl")) == (
        "typing-extensions==4.16.0"
    )
    assert build.pin(Path("torch-2.13.0+cpu-cp311-cp311-x.whl")) == "torch==2.13.0"


def test_where_nothing_builds_images_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    with pytest.raises(build.BuildError, match="apt-get install --no-install-recommends podman"):
        build.found_engine()


# -- The images --------------------------------------------------------------------

container = [pytest.mark.container, pytest.mark.slow]


class Images:
    """What `make image` has left, run by podman."""

    def __init__(self) -> None:
        if shutil.which("podman") is None:
            pytest.skip("needs podman (Debian: apt-get install podman runc), then `make image`")
        for target in build.TARGETS:
            if subprocess.run(["podman", "image", "exists", f"ringside-{target}"]).returncode:
                pytest.skip(f"there is no image ringside-{target}: run `make image`")
        # Root of a virtual machine may raise no limits, and its control groups may be of two kinds.
        self.options = ["--network", "host"]
        for name, kind in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
            most = min(resource.getrlimit(kind)[1] % (1 << 63), 10_000)
            self.options += ["--ulimit", f"{name}={most}:{most}"]
        self.runtime = ["--runtime", "runc"] if shutil.which("runc") else []

    def command(self, target: str, words: Sequence[str], *options: str) -> list[str]:
        run = ["podman", *self.runtime, "run", "--rm", *self.options, *options]
        return [*run, f"ringside-{target}", *words]

    def run(self, target: str, *words: str, options: Sequence[str] = ()) -> str:
        done = subprocess.run(
            self.command(target, words, *options), capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def images() -> Images:
    return Images()


class TestImages:
    pytestmark = container

    def test_a_student_finds_all_that_works_and_no_grader(self, images: Images) -> None:
        said = images.run("student", "sh", "-c", "id -u; id -g; ls; ringside doctor --json")
        user, group, assignments, lectures, found = said.split("\n", 4)
        assert (user, group, assignments, lectures) == ("1000", "100", "assignments", "lectures")
        works = {each["name"]: each["works"] for each in json.loads(found)}
        assert all(works[name] for name in ("simulated ranks", "notebooks", "MPI", "torch"))
        hidden = "find / -xdev -path '*solutions*' -name '*.py' -path '*a03*' 2>/dev/null"
        seen = images.run(
            "student", "sh", "-c", f"{hidden}; python -c 'import autograder' || echo none"
        )
        assert seen.strip() == "none"

    def test_a_module_is_checked_and_launched(self, images: Images) -> None:
        reference = ROOT / "solutions" / "a03_allreduce" / "ring.py"
        script = (
            "cd assignments/a03_allreduce && cp /ring.py . && ringside check ring --from-files"
            " && ringside launch ring.py:all_reduce --site local --nodes 2"
        )
        said = images.run(
            "student", "bash", "-c", script, options=["-v", f"{reference}:/ring.py:ro"]
        )
        assert "complete: run.json and run.trace.gz are written" in said or "values right" in said
        assert "FAIL" not in said

    def test_jupyter_answers_whoever_has_its_token_and_nobody_else(self, images: Images) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = ["jupyter", "lab", "--no-browser", "--ip=127.0.0.1", f"--port={port}"]
        command = images.command("student", words, "-e", "JUPYTER_TOKEN=known", "--init=false")
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as lab:
            try:
                status = answer(f"http://127.0.0.1:{port}/api/status", "known", lab)
                assert json.loads(status)["kernels"] == 0
                with pytest.raises(urllib.error.HTTPError, match="403"):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/api/contents")
            finally:
                lab.terminate()

    @pytest.mark.parametrize(
        ("options", "sandbox"),
        [
            ([], "Landlock and seccomp"),
            (["--security-opt=unmask=ALL", "--security-opt=seccomp=unconfined"], "bubblewrap"),
        ],
    )
    def test_a_class_gets_the_points_that_it_gets_outside(
        self, images: Images, options: list[str], sandbox: str, tmp_path: Path
    ) -> None:
        reference = (ROOT / "solutions" / "a03_allreduce" / "star.py").read_text()
        ring = (ROOT / "solutions" / "a03_allreduce" / "ring.py").read_text()
        wrong = ring.replace("range(world_size - 1)", "range(world_size - 2)")
        assert wrong != ring
        handed_in = {
            "anna/star.py": reference,
            "ben/ring.py": wrong,
            "carla/star.py": "import os; os._exit(0)",
        }
        for name, text in handed_in.items():
            (tmp_path / "class" / name).parent.mkdir(parents=True)
            (tmp_path / "class" / name).write_text(text)
        (tmp_path / "class").chmod(0o755)
        outside = graded(["autograder"], tmp_path / "class", tmp_path / "results")
        words = [
            "autograder",
            "grade",
            "a03_allreduce",
            "/class",
            "--layout",
            "class",
            "--json",
            "-",
        ]
        mounted = ["-v", f"{tmp_path / 'class'}:/class:ro", "-e", f"{SECRET}={PUBLIC_SECRET}"]
        mounted += ["-e", "RINGSIDE_RESULTS=/tmp/results"]  # there is no course
        inside = json.loads(images.run("grader", *words, options=[*options, *mounted]))
        assert inside["sandbox"].startswith(sandbox)
        assert points(inside) == points(outside)


def answer(url: str, token: str, server: subprocess.Popen[bytes]) -> bytes:
    """What a server says once it is up; as long as its process lives, it may take its time."""
    request = urllib.request.Request(url, headers={"Authorization": f"token {token}"})
    while True:
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(request) as said:
            found: bytes = said.read()
            return found
        assert server.poll() is None, "Jupyter has ended."
        time.sleep(0.2)


def graded(program: Sequence[str], folder: Path, results: Path) -> dict[str, Any]:
    words = ["grade", "a03_allreduce", str(folder), "--layout", "class", "--json", "-"]
    environment = {**os.environ, "RINGSIDE_RESULTS": str(results)}
    done = subprocess.run([*program, *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def points(report: dict[str, Any]) -> dict[str, Any]:
    """What the tables show: each student's points, test by test."""
    return {
        submission["student"]: (
            submission["status"], submission["score"], submission["max_score"],
            {
                name: [(test["name"], test["earned"], test["points"]) for test in module["tests"]]
                for name, module in submission["modules"].items()
            },
        )
        for submission in report["submissions"]
    }  # fmt: skip
