from firesteel.datastream.connectors.kafka import *
