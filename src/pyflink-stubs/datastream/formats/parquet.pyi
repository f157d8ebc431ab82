from firesteel.datastream.formats.parquet import *
