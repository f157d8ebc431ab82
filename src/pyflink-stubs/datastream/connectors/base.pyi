from firesteel.datastream.connectors.base import *
