from firesteel.datastream.state import *
