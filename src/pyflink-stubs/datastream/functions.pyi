from firesteel.datastream.functions import *
