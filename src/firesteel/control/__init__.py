"""Connections between the processes of a job: frames that prove a secret, hellos and messages, and who accepts them."""
