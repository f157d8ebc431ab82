"""`firesteel run` for several PyFlink programs one after another in one process, so that Spark starts once.

usage: run_many.py PROGRAM...; before and after each of them a line on both outputs says so
"""

import sys

from firesteel.cli.main import main

for program in sys.argv[1:]:
    print("begin", program, flush=True)
    print("begin", program, file=sys.stderr, flush=True)
    code = main.main(["run", "--pyflink", program], prog_name="firesteel", standalone_mode=False)
    print("end", code, flush=True)
    print("end", code, file=sys.stderr, flush=True)
