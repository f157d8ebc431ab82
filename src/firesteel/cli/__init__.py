"""The ``firesteel`` command: one file for each subcommand; never imports pyspark."""
