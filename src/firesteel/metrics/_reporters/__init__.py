"""Reporters to other systems, one file each; they run in the driver."""
