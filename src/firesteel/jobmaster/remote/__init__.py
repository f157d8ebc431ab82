"""Talking to a running job from another process: where it is found, what it answers."""
