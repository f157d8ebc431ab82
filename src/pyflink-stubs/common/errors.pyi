from firesteel.common.errors import *
