from firesteel.table.types import *
