from firesteel.common.job_id import *
