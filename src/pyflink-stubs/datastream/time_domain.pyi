from firesteel.datastream.time_domain import *
