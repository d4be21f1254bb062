"""The workflow of docs/how-to.md."""

import os
import re
import subprocess

import pytest
import yaml
from support.projects import PYTHONPATH, SHAPES
from support.readers import HOW_TO
from support.recipes import Reader

(TEXT,) = (block.text for block in HOW_TO if block.value == ".github/workflows/softbench.yml")
WORKFLOW = yaml.safe_load(TEXT)
JOBS = WORKFLOW["jobs"]
STEPS = [step for job in JOBS.values() for step in job["steps"]]
LINES = [line for step in STEPS for line in step.get("run", "").replace("\\\n", " ").splitlines()]
KERNEL = """
import torch
from softbench import implementation

@implementation(operator="softmax", requires=["torch"])
def mine(case):
    return lambda x: torch.softmax(x, dim=-1)
"""
GH = """#!/bin/sh
echo "$@" >> gh.log
case "$*" in *--paginate*) cat known 2>/dev/null ;; esac
exit 0
"""


def test_it_has_the_parts_of_a_workflow():
    """The key `on` is true to YAML 1.1."""
    assert WORKFLOW.keys() == {"name", True, "permissions", "jobs"}
    assert WORKFLOW[True].keys() == {"push", "pull_request"}
    for job in JOBS.values():
        assert job.keys() == {"if", "runs-on", "permissions", "steps"}
        assert set(job["permissions"].items()) <= {("contents", "read"), ("contents", "write"), ("pull-requests", "write")}
    for step in STEPS:
        assert ("run" in step) != ("uses" in step)
        assert step.keys() <= {"uses", "with", "run", "env", "if"}
        assert re.fullmatch(r"[\w-]+(/[\w-]+)+@v\d+", step.get("uses", "a/b@v1"))
    contexts = set(re.findall(r"\$\{\{ (\w+)\.", TEXT))
    assert contexts == {"github", "secrets"}
    assert TEXT.count("${{") == TEXT.count("}}")


def test_no_text_of_a_pull_request_is_in_a_script():
    assert not [line for line in LINES if "${{" in line]


def test_what_one_job_keeps_the_other_finds():
    uses = {step["uses"].partition("@")[0]: step["with"] for step in STEPS if "with" in step}
    save, restore = uses["actions/cache/save"], uses["actions/cache/restore"]
    assert save["path"] == restore["path"] == "baseline.jsonl"
    assert save["key"].startswith(restore["restore-keys"])
    assert uses["benchmark-action/github-action-benchmark"]["output-file-path"] in "\n".join(LINES)


def scripts(job, folder, environment, first=0):
    """The steps that a job runs from one on, but for the installation, as GitHub's runner starts them."""
    steps = [step for step in JOBS[job]["steps"] if "run" in step and not step["run"].startswith("pip ")]
    return [
        subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=folder,
            env=environment | {"COMMENTS": "repos/me/it/issues", "NUMBER": "7"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        for step in steps[first:]
    ]


@pytest.mark.slow
def test_its_scripts_run_and_write_one_comment(tmp_path):
    """On a CPU, whose times may fail the limit."""
    reader = Reader(tmp_path)
    folder, gh = reader.folder, tmp_path / "bin" / "gh"
    (folder / "kernels").mkdir()
    (folder / "kernels" / "mine.py").write_text(KERNEL)
    (folder / "shapes.yaml").write_text(SHAPES)
    gh.write_text(GH)
    gh.chmod(0o755)
    short = {"PYTEST_ADDOPTS": "--softbench-budget=0.5 --softbench-no-page -p no:cacheprovider", "CUDA_VISIBLE_DEVICES": ""}
    environment = {**os.environ, "PATH": f"{gh.parent}:{os.environ['PATH']}", "PYTHONPATH": PYTHONPATH, **short}
    environment |= {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "OMP_NUM_THREADS": "1"}
    for done in scripts("main", folder, environment):
        assert done.returncode == 0, done.stdout + done.stderr
    assert '"name": "softmax-float32-16x256::mine"' in (folder / "times.json").read_text()
    measured, commented = scripts("pull-request", folder, environment)
    assert measured.returncode in (0, 1), measured.stdout
    assert commented.returncode == 0, commented.stderr
    assert (folder / "comment.md").read_text().startswith("<!-- softbench -->\n\nThis pull request is ")
    assert 'name="time_low_us"' in (folder / "out" / "junit.xml").read_text()
    assert " against " in (tmp_path / "summary.md").read_text()
    assert "api --method POST repos/me/it/issues/7/comments --field body=@comment.md" in (folder / "gh.log").read_text()
    (folder / "known").write_text("12\n34\n")
    scripts("pull-request", folder, environment, first=1)  # what was measured is still there
    assert "api --method PATCH repos/me/it/issues/comments/12 --field" in (folder / "gh.log").read_text()
