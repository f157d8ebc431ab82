"""Drivers that stand by: who leads, for how long, and what the others do meanwhile."""
