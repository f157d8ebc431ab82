"""What crosses between driver and tasks, both ways: frozen data, and the executor protocol."""
