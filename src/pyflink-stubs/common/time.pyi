from firesteel.common.time import *
