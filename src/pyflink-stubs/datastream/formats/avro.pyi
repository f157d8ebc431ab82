from firesteel.datastream.formats.avro import *
