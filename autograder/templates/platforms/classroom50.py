"""The autograder of an assignment for Classroom 50: the public tests, with part of the points.

Its runner starts this in a student's checkout, once for each submission. The kit is installed from
that checkout, its public tests are run, and result.json and release-body.md are left there.
"""

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path


def main() -> int:
    settings = json.loads(Path(__file__).with_name("settings.json").read_text(encoding="utf-8"))
    environment = os.environ | settings["environment"]
    install = [sys.executable, "install.py", *settings["extras"]]
    if subprocess.run(install, env=environment).returncode:
        print("::error::The kit could not be installed; the lines above say why.")
        return 1
    check = [sys.executable, "-m", "ringside", "check", "--json", "--folder"]
    done = subprocess.run(
        [*check, f"assignments/{settings['assignment']}"], stdout=subprocess.PIPE, text=True
    )
    try:
        modules = json.loads(done.stdout)["modules"]
    except ValueError:
        print("::error::The public tests could not be run; the lines above say why.")
        return 1
    tests = [row(name, most, modules.get(name)) for name, most in settings["points"].items()]
    Path("result.json").write_text(json.dumps(result(tests), indent=2) + "\n", encoding="utf-8")
    Path("release-body.md").write_text(body(tests, modules), encoding="utf-8")
    return 0


def row(name: str, most: int, module: dict | None) -> dict:
    """A module's points, rounded down: Classroom 50 knows whole ones only."""
    earned, points = (module["earned"], module["points"]) if module else (0, 0)
    whole = points > 0 and earned >= points
    score = most if whole else int(most * earned / points) if points else 0
    return {"test-name": name, "passed": whole, "score": score, "max-score": most}


def result(tests: list[dict]) -> dict:
    """What Classroom 50 collects; its runner adds who has submitted, and when."""
    now = datetime.datetime.now(datetime.UTC)
    return {
        "schema": "classroom50/result/v1",
        "classroom": os.environ["CLASSROOM"],
        "assignment": os.environ["ASSIGNMENT"],
        "submission": os.environ["SUBMISSION_TAG"],
        "commit": os.environ["COMMIT_URL"],
        "release": os.environ["RELEASE_URL"],
        "review": os.environ.get("REVIEW_URL") or os.environ["COMMIT_URL"],
        "datetime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
    }


def body(tests: list[dict], modules: dict) -> str:
    """The page that a student reads: the points, and what each failed test says."""
    score, most = (sum(test[key] for test in tests) for key in ("score", "max-score"))
    lines = [f"### {score} of {most} public points", ""]
    for test in tests:
        lines.append(f"**{test['test-name']}**: {test['score']} of {test['max-score']}")
        module = modules.get(test["test-name"], {"tests": []})
        failed = [one for one in module["tests"] if one["earned"] < one["points"]]
        if failed:
            lines += ["", "```text", *(one.get("message", "") for one in failed), "```"]
        lines.append("")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
