from firesteel.datastream.connectors.websocket import *
