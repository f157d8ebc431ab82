from firesteel.datastream.connectors.nats import *
