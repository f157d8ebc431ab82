from firesteel.common.execution_mode import *
