from firesteel.common.typeinfo import *
