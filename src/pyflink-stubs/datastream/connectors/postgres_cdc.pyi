from firesteel.datastream.connectors.postgres_cdc import *
