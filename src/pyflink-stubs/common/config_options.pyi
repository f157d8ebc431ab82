from firesteel.common.config_options import *
