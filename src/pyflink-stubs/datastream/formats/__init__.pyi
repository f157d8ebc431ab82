from firesteel.datastream.formats import *
