from firesteel.datastream.operators import *
