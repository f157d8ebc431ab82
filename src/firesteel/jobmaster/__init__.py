"""One job, from submit to end; knows the executor protocol, not Spark."""
