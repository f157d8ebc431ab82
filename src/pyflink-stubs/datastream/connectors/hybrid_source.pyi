from firesteel.datastream.connectors.hybrid_source import *
