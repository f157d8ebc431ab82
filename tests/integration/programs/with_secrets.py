"""Two jobs that are given secrets in every place that there is for them; one fails, the other runs until somebody ends it.

usage: with_secrets.py SECRET FILE; writes where REST and Spark's pages are into FILE
"""

import json
import os
import sys
from pathlib import Path

from firesteel.common import Configuration, WatermarkStrategy
from firesteel.common.errors import FiresteelError
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from firesteel.datastream.connectors.redis import RedisStreamSource

secret, told = (
    sys.argv[1][::-1],
    Path(sys.argv[2]),
)  # backwards: the words of a program's own command are its own affair
os.environ["MY_API_TOKEN"] = secret


def environment():
    configuration = Configuration().set_secret("bank.pin", secret).set_string("program.password", secret)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
    env.get_config().set_global_job_parameters({"service.api-key": secret, "service.name": "shown"})
    return env


failing = environment()
lost = RedisStreamSource(f"redis://me:{secret}@127.0.0.1:1/0", "orders")
failing.from_source(lost, WatermarkStrategy.no_watermarks(), "Orders").print()
try:
    failing.execute("failing")
except FiresteelError as error:
    print("failed:", error)

running = environment()
numbers = DataGeneratorSource(lambda n: n, None, RateLimiterStrategy.per_second(20))
running.from_source(numbers, WatermarkStrategy.no_watermarks(), "Numbers").key_by(lambda n: n % 3).reduce(
    max
).print()
job = running.execute_async("running")

from pyspark.sql import SparkSession  # noqa: E402 - there is one now

pages = SparkSession._instantiatedSession.sparkContext
temporary = told.with_suffix(".partial")
temporary.write_text(
    json.dumps(
        {
            "rest": job.rest_url,
            "job": str(job.get_job_id()),
            "spark": pages.uiWebUrl,
            "app": pages.applicationId,
        }
    )
)
temporary.replace(told)
job.get_job_execution_result().result()
