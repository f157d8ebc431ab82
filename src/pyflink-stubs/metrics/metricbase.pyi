from firesteel.metrics.metricbase import *
