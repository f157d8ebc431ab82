from firesteel.common.configuration import *
