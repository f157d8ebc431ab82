from firesteel.datastream.state_backend import *
