from firesteel.datastream.connectors.jdbc import *
