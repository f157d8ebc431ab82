"""What user code implements and the runtime calls: functions, state, sources, sinks."""
