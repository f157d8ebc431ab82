from firesteel.datastream.window import *
