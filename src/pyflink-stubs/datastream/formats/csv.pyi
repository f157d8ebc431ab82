from firesteel.datastream.formats.csv import *
