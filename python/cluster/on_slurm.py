"""A sweep on a SLURM cluster: `python on_slurm.py` on a login node.

Needs `pip install dask-jobqueue` beside ssdlab, in an environment that the nodes see under the same path.
"""

from __future__ import annotations

from dask_jobqueue import SLURMCluster
from distributed import Client

import ssdlab


def make_cluster() -> SLURMCluster:
    """Jobs of eight single-threaded workers; `print(make_cluster().job_script())` shows what is submitted."""
    return SLURMCluster(
        queue="normal",
        cores=8,
        processes=8,
        memory="16GB",
        walltime="02:00:00",
        local_directory="/tmp",
        log_directory="slurm-logs",
        # A worker stops taking runs before SLURM ends its job.
        worker_extra_args=["--lifetime", "110m", "--lifetime-stagger", "5m"],
    )


def main() -> None:
    with make_cluster() as cluster, Client(cluster) as client:
        cluster.scale(jobs=4)
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
