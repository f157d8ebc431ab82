"""Formats of files, at PyFlink's import paths: one module for each format."""

from firesteel.datastream.missing_modules import FORMATS, refuse_imports

refuse_imports(__name__, FORMATS)
