from firesteel.common.serialization import *
