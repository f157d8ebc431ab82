from firesteel.datastream.stream_execution_environment import *
