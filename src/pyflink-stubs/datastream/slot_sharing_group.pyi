from firesteel.datastream.slot_sharing_group import *
