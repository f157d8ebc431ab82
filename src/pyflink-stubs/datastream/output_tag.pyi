from firesteel.datastream.output_tag import *
