from firesteel.datastream.connectors.rabbitmq import *
