from firesteel.datastream.async_data_stream import *
