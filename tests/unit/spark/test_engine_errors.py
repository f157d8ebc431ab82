"""What Spark says when it does not start at a master."""

from __future__ import annotations

from firesteel.spark.engine_errors import start_failure


def test_master_that_does_not_take_the_application_is_named() -> None:
    text = str(
        start_failure(
            "spark://host:8080",
            ["java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."],
        )
    )
    assert text.startswith(
        "somebody listens at spark://host:8080, but does not take applications of this Spark"
    )
    assert "not its web page" in text
    assert "java.lang" not in text


def test_other_reasons_are_told_with_their_causes_and_the_master_each_once() -> None:
    texts = ["org.apache.spark.SparkException: External scheduler cannot be instantiated"]
    texts += ["org.apache.spark.SparkException: Must specify the image"] * 2
    assert str(start_failure("k8s://https://host:443", texts)) == (
        "Spark did not start at k8s://https://host:443: SparkException: External scheduler cannot be instantiated; "
        "SparkException: Must specify the image"
    )
