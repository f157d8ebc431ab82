from firesteel.datastream.connectors.datagen import *
