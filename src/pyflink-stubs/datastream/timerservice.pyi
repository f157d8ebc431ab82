from firesteel.datastream.timerservice import *
