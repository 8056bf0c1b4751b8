"""A sweep on Kubernetes: `python on_kubernetes.py`, with a context of kubectl that may create a DaskCluster.

Needs `pip install dask-kubernetes` beside ssdlab, Dask's operator in the cluster, and the image of the Dockerfile beside
this file where the cluster can pull it.
"""

from __future__ import annotations

import sys
from typing import Any

from dask_kubernetes.operator import KubeCluster, make_cluster_spec
from distributed import Client

import ssdlab


def make_specification(image: str) -> dict[str, Any]:
    """A scheduler, and eight workers of one processor each."""
    specification: dict[str, Any] = make_cluster_spec(
        name="ssdlab",
        image=image,
        n_workers=8,
        resources={"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}},
        worker_command=["dask", "worker", "--nthreads", "1"],
    )
    # The default is the command dask-scheduler, which Dask has no more.
    scheduler = specification["spec"]["scheduler"]["spec"]["containers"][0]
    scheduler["args"] = ["dask", "scheduler", "--host", "0.0.0.0"]
    return specification


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python on_kubernetes.py IMAGE, such as registry.example.org/ssdlab-python:0.1.0")
    with KubeCluster(custom_cluster_spec=make_specification(sys.argv[1])) as cluster, Client(cluster) as client:
        swept = ssdlab.sweep(
            "steady",
            "sim:toshiba-xg5,scale=1/16",
            vary={"spare": ["7%", "15%", "28%"], "collection.policy": ["greedy", "fifo", "random"]},
            seeds=20,
            out="policies",
            resume=True,
            client=client,
        )
    print(swept.means("write_amplification"))
    if len(swept.missing):
        print(f"{len(swept.missing)} runs are missing; the same command makes them:")
        print(swept.missing["error"].value_counts())


if __name__ == "__main__":
    main()
