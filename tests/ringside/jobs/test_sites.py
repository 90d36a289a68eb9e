"""Sites: what their files may say, how one is written, and that nobody else knows a site."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ringside.commands import cli
from ringside.jobs.launch import jobscript, new_site, sites, sweep
from ringside.jobs.launch.jobscript import Job, LaunchError
from ringside.jobs.launch.sites import Site, SiteError

ROOT = Path(__file__).resolve().parents[3]
CLUSTERS = [name for name in sites.names() if Site.load(name).scheduler == "slurm"]
KNOWN = [name for name in CLUSTERS if name != sites.GENERIC]


def job(site: str = "generic", *changes: str, kind: str = "mpi4py", **how: int) -> Job:
    loaded = Site.load(site)
    return Job(loaded, loaded.settings(changes, {}), kind, **{"nodes": 1, **how})


# -- the files ----------------------------------------------------------------------------------


def test_there_are_a_local_and_a_generic_site_and_three_that_are_known() -> None:
    assert {"local", "generic", "zaratan"} < set(sites.names())
    assert len(KNOWN) == 3


@pytest.mark.parametrize("name", KNOWN)
def test_every_fact_about_a_known_site_names_its_source(name: str) -> None:
    table = tomllib.loads((sites.folder() / f"{name}.toml").read_text())
    assert table["name"] == name
    for variable, entry in table["variables"].items():
        assert len(entry.get("source", "")) >= 12, variable


@pytest.mark.parametrize("name", sites.names())
def test_a_site_has_every_variable_with_help_and_may_change_none_of_its_type(name: str) -> None:
    site, generic = Site.load(name), sites.generic_variables()
    assert list(site.variables) == list(generic)
    for variable in site.variables.values():
        assert variable.help
        assert type(variable.value) is type(generic[variable.name].value)
        assert variable.choices == generic[variable.name].choices


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name = 3", "no site: 'scheduler'"),
        ('name = "x"\nscheduler = "pbs"\ndescription = ""', "must be slurm or none"),
        ("[variables.colour]\nvalue = 1", "there is no variable 'colour'"),
        ("[variables.nodes]\nvalue = 1", "there is no variable 'nodes'"),
        ("[variables.time]\nvalue = 10", "time = 10: text is wanted"),
        ('[variables.ranks_per_node]\nvalue = "4"', "a whole number is wanted"),
        ("[variables.ranks_per_node]\nvalue = 0", "must be at least 1"),
        ('[variables.modules]\nvalue = "cuda"', "a list is wanted"),
        ("[variables.modules]\nvalue = [1]", "a list of texts is wanted"),
        ('[variables.torch_launcher]\nvalue = "mpirun"', "must be one of srun, torchrun"),
        ('[variables.time]\nvalue = "1"\nhelpp = "x"', "time has no 'helpp'"),
        ("[variables.time]", "no site: 'value'"),
        ("= 1", "is no site"),
    ],
)
def test_a_file_that_is_no_site_is_refused_with_the_line_to_mend(
    tmp_path: Path, text: str, reason: str
) -> None:
    head = 'name = "x"\nscheduler = "slurm"\ndescription = ""\n' if text[0] == "[" else ""
    path = tmp_path / "x.toml"
    path.write_text(head + text)
    with pytest.raises(SiteError, match=re.escape(reason)) as caught:
        Site.load(str(path))
    assert str(path) in str(caught.value)


# -- who else knows a site ----------------------------------------------------------------------


def facts() -> dict[str, str]:
    """Words that only a site's file may hold: hosts, folders, options, modules, tools."""
    found: dict[str, str] = {}
    generic = sites.generic_variables()
    for name in KNOWN:
        for variable in Site.load(name).variables.values():
            if variable.value != generic[variable.name].value:
                values = variable.value if isinstance(variable.value, list) else [variable.value]
                texts = [str(value).replace("{gpus}", "").rstrip("=:") for value in values]
                found |= {text: name for text in texts if re.search(r"[./:$-]", text)}
            prose = re.sub(r"https?://\S+", "", f"{variable.help} {variable.source}")
            found |= dict.fromkeys(re.findall(r"/scratch/\w+|\w+/\d[\w.]+", prose), name)
            found |= dict.fromkeys(re.findall("sbalance|openmpi/gcc", prose), name)
    return {text: name for text, name in found.items() if text not in str(generic)}


def test_the_words_that_are_looked_for_are_facts_of_sites() -> None:
    known = facts()
    wanted = {"login.zaratan.umd.edu", "--gres=gpu:a100", "sbalance", "perlmutter.nersc.gov"}
    assert wanted | {"/scratch/gpfs/$USER", "$PSCRATCH", "anaconda3/2023.9"} <= set(known)
    assert "00:10:00" not in known


def sources() -> Iterator[Path]:
    for pattern in ("ringside/**/*.py", "autograder/*.py", "cluster/templates/*", "Makefile"):
        yield from ROOT.glob(pattern)
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "environment.yml"))
    yield from (ROOT / "docs").glob("*.md")


def test_no_fact_about_a_site_stands_outside_its_file() -> None:
    known = facts()
    for path in sources():
        text = path.read_text()
        for fact, site in known.items():
            assert fact not in text, f"{path.relative_to(ROOT)} knows {fact!r} of {site}"


def test_no_partition_of_a_site_is_named_outside_its_file() -> None:
    # The names are everyday words (standard, gpu), so only their use as partitions is looked for.
    for name in KNOWN:
        for variable in ("partition", "gpu_partition"):
            partition = str(Site.load(name).variables[variable].value)
            use = re.compile(rf"partition[= \"']+{partition}\b") if partition else None
            for path in sources():
                assert not use or not use.search(path.read_text()), f"{path} names {partition}"


def test_no_template_names_a_site() -> None:
    for path in (ROOT / "cluster" / "templates").iterdir():
        for name in KNOWN:
            assert name not in path.read_text().lower(), f"{path.name} names {name}"


def test_no_code_decides_by_a_sites_name() -> None:
    # Machine models have names of their own; a comparison would be a fact in the wrong place.
    for path in [*ROOT.glob("ringside/**/*.py"), *ROOT.glob("autograder/*.py")]:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Compare | ast.Match | ast.Dict):
                names = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                assert not names & set(KNOWN), f"{path.name}:{node.lineno}"


# -- site list, show, new -----------------------------------------------------------------------


def test_site_list_and_show_say_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["site", "list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == sites.names()
    assert cli.main(["site", "show", KNOWN[0]]) == 0
    shown = capsys.readouterr().out
    for name, variable in Site.load(KNOWN[0]).variables.items():
        assert f"\n{name} = " in shown
        assert variable.source in shown
    assert cli.main(["site", "show", KNOWN[0], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["variables"]) == list(Site.load(KNOWN[0]).variables)
    assert cli.main(["site", "show"]) == 2
    assert "which?" in capsys.readouterr().err


def test_a_new_site_holds_the_answers_and_can_be_launched_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    line = ["site", "new", "mine", "--yes", "--description", 'Ours, the "fast" one']
    line += ["--set", "modules=gcc,openmpi", "--set", "max_requeues=0", "--set", "scratch=/s/$USER"]
    assert cli.main(line) == 0
    table = tomllib.loads((tmp_path / "mine.toml").read_text())
    assert set(table["variables"]) == {"modules", "max_requeues", "scratch"}
    site = Site.load("mine.toml")
    assert (site.name, site.description) == ("mine", 'Ours, the "fast" one')
    assert site.variables["modules"].value == ["gcc", "openmpi"]
    assert site.variables["partition"] == sites.generic_variables()["partition"]
    (tmp_path / "ring.py").write_text("def f(comm, x): ...\n")
    capsys.readouterr()
    monkeypatch.setattr(jobscript.Job, "check", lambda job: None)
    launched = ["launch", "ring.py:f", "--site", "mine.toml", "--dry-run", "--out", "/home/me"]
    assert cli.main(launched) == 0  # the script of a site that isn't here
    said = capsys.readouterr()
    assert "--site mine" in said.out and "module load" in said.out and "openmpi" in said.out
    assert "every node has a /tmp of its own" in said.err


def test_a_new_site_replaces_no_file_and_no_site(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("precious")
    with pytest.raises(SiteError, match="is there already"):
        new_site.write(str(path))
    assert path.read_text() == "precious"
    with pytest.raises(SiteError, match="is a site of the kit"):
        new_site.write(str(tmp_path / f"{KNOWN[0]}.toml"))
    assert [found.name for found in tmp_path.iterdir()] == ["mine.toml"]


def test_a_file_that_appears_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.toml"

    def ask(question: str) -> str:
        path.write_text("somebody else's")
        return ""

    with pytest.raises(SiteError, match="is there already"):
        new_site.write(str(path), ask=ask)
    assert path.read_text() == "somebody else's"
    assert [found.name for found in tmp_path.iterdir()] == ["mine.toml"]


def test_a_question_is_asked_until_its_answer_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    answers = {"ranks_per_node": ["many", "0", "8"], "partition": ["cpu"]}

    def ask(question: str) -> str:
        asked.append(question)
        name = question.split("\n  ")[-1].split(" [")[0]
        left = answers.get(name, [])
        return left.pop(0) if left else ""

    path = new_site.write(str(tmp_path / "mine"), ["account=me"], None, ask)
    assert Site.load(str(path)).variables["ranks_per_node"].value == 8
    assert Site.load(str(path)).variables["partition"].value == "cpu"
    assert Site.load(str(path)).variables["account"].value == "me"
    assert sum("ranks_per_node [4]" in question for question in asked) == 3
    assert not any("  account [" in question for question in asked)  # it was given
    assert "a whole number is wanted" in capsys.readouterr().err


@pytest.mark.parametrize("change", ["colour=red", "ranks_per_node=0", "torch_launcher=x", "time"])
def test_a_wrong_answer_on_the_command_line_writes_nothing(tmp_path: Path, change: str) -> None:
    with pytest.raises(SiteError):
        new_site.write(str(tmp_path / "mine"), [change])
    assert not list(tmp_path.iterdir())


def test_questions_without_a_person_end_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def nobody(*_: object) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", nobody)
    assert cli.main(["site", "new", "mine"]) == 2
    assert "--yes takes the defaults" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# -- what a job asks for ------------------------------------------------------------------------


def test_gpus_decide_ranks_partition_account_and_what_is_loaded() -> None:
    changes = ["partition=cpu", "gpu_partition=gpu", "account=a", "gpu_account=b", "modules=mpi"]
    changes += ["gpu_modules=cuda", "gpu_directives=--constraint=gpu", "cpus_per_gpu=6"]
    without = job("generic", *changes, nodes=2).values()
    assert (without["partition"], without["account"], without["gpu_request"]) == ("cpu", "a", "")
    assert (without["world_size"], without["modules"], without["directives"]) == (8, ["mpi"], [])
    values = job("generic", *changes, kind="nccl", nodes=2, gpus_per_node=3).values()
    assert (values["partition"], values["account"]) == ("gpu", "b")
    assert values["gpu_request"] == "--gres=gpu:3"
    assert (values["world_size"], values["tasks_per_node"], values["cpus_per_task"]) == (6, 3, 6)
    assert values["modules"] == ["mpi", "cuda"]
    assert values["directives"] == ["--constraint=gpu"]


def test_one_torchrun_a_node_gets_the_cores_of_all_its_ranks() -> None:
    values = job("generic", "torch_launcher=torchrun", "cpus_per_rank=3", kind="gloo").values()
    assert (values["tasks_per_node"], values["cpus_per_task"]) == (1, 12)
    assert values["threads_per_rank"] == 3


@pytest.mark.parametrize(
    ("time", "signal_s", "found"),
    [("00:10:00", 90, 90), ("00:01:00", 90, 0), ("2", 90, 90), ("1-0", 3600, 3600), ("5", 0, 0)],
)
def test_ranks_are_told_before_the_time_is_up_where_the_job_is_long_enough(
    time: str, signal_s: int, found: int
) -> None:
    told = job("generic", f"time={time}", f"checkpoint_signal_s={signal_s}")
    assert told.signal_s() == found


def test_a_script_may_run_for_its_wall_time_unless_a_deadline_was_set() -> None:
    assert job("generic", "time=2:00:00").deadline_s(script=True) == 7200 - 30
    assert job("generic", "time=2:00:00").deadline_s(script=False) == 300
    assert job("generic", "time=2:00:00", "deadline_s=20").deadline_s(script=True) == 20
    assert job("generic", "time=00:02:00").deadline_s(script=True) == 120 - 20
    assert job("generic", "time=00:02:00").deadline_s(script=False) == 120 - 20
    assert job("generic", "checkpoint_signal_s=20").deadline_s(script=True) == 600 - 10
    assert job("generic", "checkpoint_signal_s=0").deadline_s(script=True) == 600 - 30
    assert job("local", "time=2:00:00").deadline_s(script=True) == 60


def test_a_time_that_slurm_would_not_read_is_refused() -> None:
    with pytest.raises(LaunchError, match="time=soon: hours:minutes:seconds are wanted"):
        job("generic", "time=soon").signal_s()


def test_one_machine_has_no_gpus_on_a_second_node() -> None:
    with pytest.raises(LaunchError, match=r"--nodes \(2\) must be 1"):
        job("local", kind="nccl", nodes=2, gpus_per_node=2).check()


@pytest.mark.parametrize(
    ("nodes", "ranks", "sizes"),
    [(1, 1, [1]), (2, 4, [1, 2, 4, 8]), (3, 4, [1, 2, 4, 8, 12]), (2, 3, [1, 2, 3, 4, 6])],
)
def test_a_sweep_doubles_and_fills_nodes_evenly(nodes: int, ranks: int, sizes: list[int]) -> None:
    assert jobscript.sizes(replace(job("generic", f"ranks_per_node={ranks}"), nodes=nodes)) == sizes


def test_a_sweeps_table_compares_with_the_fewest_ranks() -> None:
    def entry(n: int, median_s: float) -> dict[str, object]:
        return {"n": n, "nbytes": 8 * n, "median_s": median_s, "values": "right"}

    records = {
        4: {"nodes": 2, "makespan_s": 9.0, "measurements": [entry(10, 0.5), entry(20, 4.0)]},
        1: {"nodes": 1, "makespan_s": 9.0, "measurements": [entry(10, 2.0), entry(20, 1.0)]},
    }
    rows = sweep.table(records)
    found = [(row["ranks"], row["n"], row["speedup"]) for row in rows]
    assert found == [(1, 10, 1.0), (1, 20, 1.0), (4, 10, 4.0), (4, 20, 0.25)]
    assert sweep.as_csv(rows).splitlines()[3] == "4,2,10,80,0.5,4.0,right"
    # For people, one length after the other.
    found = [line.split() for line in sweep.as_text(rows).splitlines()[:4]]
    assert [(words[0], words[7]) for words in found] == [
        *(("1", "10"), ("4", "10"), ("1", "20"), ("4", "20")),
    ]
    script = {2: {"nodes": 1, "makespan_s": 3.0, "measurements": []}}
    assert [(row["n"], row["time_s"]) for row in sweep.table(script)] == [(None, 3.0)]
    with pytest.raises(sweep.SweepError, match="no run of the sweep in nowhere has left"):
        sweep.collect(Path("nowhere"), Path("nowhere"))
