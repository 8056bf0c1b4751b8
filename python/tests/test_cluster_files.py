"""The files for clusters, as far as they can be tried without one."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support import needs

PLACE = Path(__file__).parents[1] / "cluster"


def load(name: str):
    specification = importlib.util.spec_from_file_location(name, PLACE / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_job_of_slurm_starts_workers_that_end_before_it(tmp_path, monkeypatch):
    needs("dask_jobqueue", "the file for SLURM")
    monkeypatch.chdir(tmp_path)
    with load("on_slurm").make_cluster() as cluster:
        script = cluster.job_script()
    for asked in ("-p normal", "-n 1", "--cpus-per-task=8", "--mem=15G", "-t 02:00:00"):
        assert f"#SBATCH {asked}" in script.splitlines()
    *_, command = script.strip().splitlines()
    words = shlex.split(command)
    assert words[words.index("--nworkers") + 1] == "8" and words[words.index("--nthreads") + 1] == "1"
    # The worker of this version of Dask takes all of these options.
    known = subprocess.run([*words[:3], "--help"], capture_output=True, text=True, check=True).stdout
    assert words[:3] == [sys.executable, "-m", "distributed.cli.dask_worker"]
    for word in words:
        if word.startswith("--"):
            assert word in known, word


def test_the_cluster_of_kubernetes_is_one_that_the_operator_takes():
    needs("dask_kubernetes", "the file for Kubernetes")
    jsonschema = needs("jsonschema", "the file for Kubernetes")
    yaml = needs("yaml", "the file for Kubernetes")
    import dask_kubernetes

    specification = load("on_kubernetes").make_specification("registry.example.org/ssdlab-python:0.1.0")
    definitions = Path(dask_kubernetes.__file__).parent / "operator/deployment/helm/dask-kubernetes-operator/crds"
    version, *_ = yaml.safe_load((definitions / "daskcluster.yaml").read_text())["spec"]["versions"]
    jsonschema.validate(without_nulls(specification), version["schema"]["openAPIV3Schema"])
    # The commands are there in this version of Dask, with their options.
    for part in ("scheduler", "worker"):
        pod = specification["spec"][part]["spec"]
        program, what, *options = pod["containers"][0]["args"]
        assert program == "dask"
        command = [sys.executable, "-m", "dask", what, "--help"]
        known = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for word in options:
            if word.startswith("--"):
                assert word in known, word


def without_nulls(value):
    """The API server drops them before it looks."""
    if isinstance(value, dict):
        return {name: without_nulls(it) for name, it in value.items() if it is not None}
    return [without_nulls(it) for it in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ["on_slurm", "on_kubernetes"])
def test_what_they_ask_is_a_sweep(name, monkeypatch, tmp_path, capsys):
    """The question itself, with runs made short and a cluster of this machine."""
    needs("dask_jobqueue" if name == "on_slurm" else "dask_kubernetes", f"the question of {name}.py")
    distributed = needs("distributed", f"the question of {name}.py")
    import ssdlab

    monkeypatch.chdir(tmp_path)
    module = load(name)

    class Here(distributed.LocalCluster):
        def scale(self, n=None, *, jobs=None):
            """Jobs are those of a batch system; here the workers are there already."""
            return super().scale(n) if jobs is None else None

    def cluster(*_, **__):
        return Here(n_workers=1, threads_per_worker=2, dashboard_address=":0")

    monkeypatch.setattr(module, "make_cluster" if name == "on_slurm" else "KubeCluster", cluster)
    monkeypatch.setattr(module.ssdlab, "sweep", short(ssdlab.sweep))
    monkeypatch.setattr(sys, "argv", [name, "an-image"])
    module.main()
    printed = capsys.readouterr().out
    assert printed.count("greedy") == 2 and "missing" not in printed


def short(sweep):
    def asked(experiment, target, *, vary, seeds, **more):
        assert seeds == 20
        few = {key: values[:2] for key, values in vary.items()}
        return sweep(experiment, "sim:toshiba-xg5,scale=1/64", vary=few, quick=True, **more)

    return asked
