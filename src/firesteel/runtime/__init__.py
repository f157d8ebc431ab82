"""What a task does: operators, chains, routing, the task machine. No Spark, no sockets, no clock of its own."""
