from firesteel.datastream.checkpoint_storage import *
