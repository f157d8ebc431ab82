from firesteel.common.watermark_strategy import *
