from firesteel.datastream.connectors import *
