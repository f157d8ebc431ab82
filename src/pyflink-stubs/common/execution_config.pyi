from firesteel.common.execution_config import *
