from firesteel.datastream.data_stream import *
