from firesteel.common.accumulators import *
