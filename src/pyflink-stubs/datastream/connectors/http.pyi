from firesteel.datastream.connectors.http import *
