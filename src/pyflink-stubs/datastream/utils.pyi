from firesteel.datastream.utils import *
