from firesteel.datastream.async_retry_strategies import *
