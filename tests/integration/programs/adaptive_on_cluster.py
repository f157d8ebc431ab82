"""A job on a cluster that has fewer slots than it asks for; says with which parallelism it runs whenever that changes.

usage: adaptive_on_cluster.py MASTER DIRECTORY
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import recovery_job
import support

from firesteel.common import Configuration, JobStatus
from firesteel.datastream import StreamExecutionEnvironment

master, directory = sys.argv[1], Path(sys.argv[2])

OPTIONS = {
    **recovery_job.OPTIONS,
    "firesteel.spark.master": master,
    "execution.checkpointing.dir": str(directory / "checkpoints"),
    "spark.cores.max": "6",  # an executor on each worker
    "spark.executor.cores": "3",
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "2 s",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 s",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "1 s",
}


def main():
    configuration = Configuration.from_dict(OPTIONS)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(4)
    for module in (recovery_job, support):
        env.add_python_file(module.__file__)
    recovery_job.build(env, directory, 1000.0)
    client = env.execute_async("adaptive")
    said = None
    while not client.is_over():
        if client.get_job_status().result() is JobStatus.RUNNING:
            now = max(vertex.parallelism for vertex in client.plan.vertices)
            if now != said:
                said = now
                print("parallelism", now, flush=True)
        time.sleep(0.05)
    print(client.get_job_status().result().name, flush=True)


main()
