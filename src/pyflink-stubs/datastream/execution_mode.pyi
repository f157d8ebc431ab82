from firesteel.datastream.execution_mode import *
