from firesteel.common.job_client import *
