from firesteel.common.options import *
