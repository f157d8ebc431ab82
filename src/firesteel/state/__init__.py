"""Keyed state inside one task: who owns it, how functions see it."""
