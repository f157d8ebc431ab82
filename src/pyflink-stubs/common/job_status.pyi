from firesteel.common.job_status import *
