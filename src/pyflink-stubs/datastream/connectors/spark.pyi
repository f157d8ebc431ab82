from firesteel.datastream.connectors.spark import *
