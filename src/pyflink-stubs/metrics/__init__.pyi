from firesteel.metrics import *
