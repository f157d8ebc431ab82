from firesteel.datastream import *
