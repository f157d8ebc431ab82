from firesteel import *
