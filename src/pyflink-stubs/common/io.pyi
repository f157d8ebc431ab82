from firesteel.common.io import *
