"""Hashtag count (J02): tweets in, the count of each hashtag so far out.

``firesteel info -p 2 examples/hashtag_count.py`` shows how the four operators of the program become
tasks: ``Extract`` and ``Count`` have two each, and every tweet's hashtags go to the task that owns them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from firesteel.datastream import DataStream, StreamExecutionEnvironment

TWEETS = [
    "On my way to the #summit, again by #train",
    "The #train is late",
    "no tags here",
    "First talk: #streaming with #state",
    "#state is what makes #streaming worth it",
    "Slides of the #streaming talk are online #summit",
]


def hashtags(tweet: str) -> list[str]:
    """The hashtags of a tweet, without the sign."""
    return [tag.lower() for tag in re.findall(r"#(\w+)", tweet)]


def build(env: StreamExecutionEnvironment, tweets: Sequence[str]) -> DataStream[tuple[str, int]]:
    tags = env.from_collection(tweets).name("Tweets").flat_map(hashtags).name("Extract")
    return tags.map(lambda tag: (tag, 1)).key_by(lambda pair: pair[0]).sum(1).name("Count")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    build(env, TWEETS).print().name("Print")
    env.execute("Hashtag count")


if __name__ == "__main__":
    main()
