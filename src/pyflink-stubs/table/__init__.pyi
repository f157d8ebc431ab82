from firesteel.table import *
