from firesteel.common.restart_strategy import *
