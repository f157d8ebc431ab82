"""The job of verified_job.py as a program, for drivers that are killed and started again.

usage: verified.py SETUP.json; options come from the command line of `firesteel run`
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import recovery_job
import verified_job

from firesteel.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
for module in (recovery_job, verified_job):
    env.add_python_file(module.__file__)  # executors of a cluster do not have them
verified_job.build(env, verified_job.Setup.load(Path(sys.argv[1])))
env.execute("verified")
