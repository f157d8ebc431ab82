"""Formats of files and messages, at PyFlink's import paths: one module for each format."""
