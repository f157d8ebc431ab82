"""Checkpoints and savepoints as durable data: where they lie, what their files look like, which one to resume from."""
