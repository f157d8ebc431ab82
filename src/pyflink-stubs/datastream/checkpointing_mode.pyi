from firesteel.datastream.checkpointing_mode import *
