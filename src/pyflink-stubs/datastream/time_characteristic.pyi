from firesteel.datastream.time_characteristic import *
