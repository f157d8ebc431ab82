from firesteel.common import *
