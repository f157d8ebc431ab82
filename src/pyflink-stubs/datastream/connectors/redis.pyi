from firesteel.datastream.connectors.redis import *
