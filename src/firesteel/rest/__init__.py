"""The REST interface of a driver: what its jobs are and do, as JSON, with Flink's paths and names.

Views turn frozen data into JSON-ready dictionaries, routes put them at paths, a service answers at a port. Nothing of the web
framework is imported before the first request comes.
"""
