from firesteel.datastream.formats.protobuf import *
