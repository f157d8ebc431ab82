"""The job of recovery_job.py as a program, for drivers that are killed and started again.

usage: recovering.py OUTPUT PER_SECOND [DATA]; options come from the command line of `firesteel run`
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import recovery_job

from firesteel.datastream import StreamExecutionEnvironment

output, per_second = Path(sys.argv[1]), float(sys.argv[2])
data = Path(sys.argv[3]) if len(sys.argv) > 3 else None
env = StreamExecutionEnvironment.get_execution_environment()
env.add_python_file(recovery_job.__file__)  # executors of a cluster do not have it
recovery_job.build(env, output, per_second, data=data)
env.execute("recovering")
