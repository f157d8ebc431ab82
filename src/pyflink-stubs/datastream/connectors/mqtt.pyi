from firesteel.datastream.connectors.mqtt import *
