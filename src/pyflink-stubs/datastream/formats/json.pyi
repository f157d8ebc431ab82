from firesteel.datastream.formats.json import *
