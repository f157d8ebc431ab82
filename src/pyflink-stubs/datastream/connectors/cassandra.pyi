from firesteel.datastream.connectors.cassandra import *
