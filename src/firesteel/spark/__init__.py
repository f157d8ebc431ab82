"""Spark as the engine: the session, the pipelined plan, the executor and the shell around each task."""
