from firesteel.datastream.connectors.opensearch import *
