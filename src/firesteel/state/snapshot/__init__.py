"""Snapshots of state: what is written for a checkpoint, and how it is read."""
