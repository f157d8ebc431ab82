from firesteel.datastream.connectors.number_seq import *
