from firesteel.datastream.formats.orc import *
