from firesteel.datastream.async_retry_predicates import *
