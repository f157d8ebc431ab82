from firesteel.common.constants import *
