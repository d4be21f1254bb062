"""A run whose seed draws its cases."""

import re

from support.projects import bench, project

from softbench.records import store

GROUP = "{operator: softmax, dtype: [float32, float16], random: 2, columns: [8, 100000], bytes: [32, 2097152]}"
RESUME, OTHER = "--softbench-resume=latest", "--softbench-seed=-1"


def test_the_seed_is_shown_recorded_and_kept(tmp_path):
    project(tmp_path)
    (tmp_path / "shapes.yaml").write_text(f"profiles: {{cpu: {{description: d, groups: [{GROUP}]}}}}")

    def run(*options):
        done = bench(tmp_path, "-k", "own_zeros", *options)
        return done.stdout + done.stderr

    shown = run("-n2")
    (path,) = tmp_path.glob("reports/*.jsonl")
    found, before = store.read(path), path.read_bytes()
    seed = f"--softbench-seed={found.passport.seed}"
    assert f"; drawn by {seed};" in shown
    cases = [*dict.fromkeys(record.case.id for record in found.records)]
    for option in (seed, RESUME, "--softbench-baseline=latest", OTHER):
        ids = re.findall(r"::(softmax\S+)::", run("--collect-only", "-q", option))
        assert (ids == cases) == (option != OTHER)
    assert all(f"{seed} -k '{case} and own_zeros'" in before.decode() for case in cases)

    assert "2 failed" in run(RESUME)
    assert f"made with {seed}, and here with {OTHER};" in run(RESUME, OTHER)
    assert path.read_bytes() == before
