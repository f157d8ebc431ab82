from firesteel.datastream.connectors.file_system import *
