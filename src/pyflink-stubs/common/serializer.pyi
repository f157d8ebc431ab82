from firesteel.common.serializer import *
