from firesteel.datastream.checkpoint_config import *
