from firesteel.common.job_execution_result import *
