from firesteel.common.types import *
