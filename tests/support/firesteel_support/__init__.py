"""What Firesteel's own tests share; `firesteel.testing` has what users' tests need.

Not every module is needed for every test, so they are imported one by one:

- `crash_simulation` with `crash_programs`, `faulty_storage`, `simulated_heartbeats`: jobs whose tasks, drivers, storage and
  messages fail wherever a seed wants; `simulate` runs many seeds of it, and of the simulations of connectors
  (``scripts/simulate``). `ledger` is the outside world of a transactional sink.
- `file_sink_simulation` on `simulated_files`, and `power_loss`: what a disk may hold after a power loss.
- `programs` with `program_functions` and `program_model`: small random programs and what they must give.
- `value_programs` with `value_functions` and `value_shapes`, `record_by_record` and `naive_windows`: programs that change their
  records, and an interpreter that does one record after the other.
- `strategies` draws all these with Hypothesis. `flow` builds programs below the fluent API, `local_master` runs
  plans, and `task_harness` drives one task. `servers` starts real servers for tests of connectors,
  `threads` waits for threads. `public_line` knows what is for users.
"""
