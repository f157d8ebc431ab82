from firesteel.datastream.formats.changes import *
