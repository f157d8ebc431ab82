# ruff: noqa: D101, D102 - a program as a user writes it
"""Ten queries of the Nexmark benchmark as DataStream programs, written for PyFlink and run by Firesteel as well.

Each query is a function from the stream of events to the stream of its results, which are tuples. PyFlink has no
joins of streams, so they are written with connected streams (queries 3 and 4) and with a window over a union (query 8).
Windows have Nexmark's ten seconds, but for query 12, where they are short enough to end while the benchmark runs.
"""

from nexmark_events import (
    AUCTION,
    AUCTION_ID,
    BID,
    BID_AUCTION,
    BIDDER,
    CATEGORY,
    CITY,
    EXPIRES,
    KIND,
    LONGEST_AUCTION,
    NAME,
    PERSON,
    PERSON_ID,
    PRICE,
    SELLER,
    STATE,
    TIME,
)
from pyflink.common import Time, Types
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    KeyedCoProcessFunction,
    ProcessWindowFunction,
)
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

TEN_SECONDS = 10_000
ANYTHING = Types.PICKLED_BYTE_ARRAY()


class EventTime(TimestampAssigner):
    """An event carries its time."""

    def extract_timestamp(self, value, record_timestamp):
        return value[TIME]


def persons(events):
    return events.filter(lambda e: e[KIND] == PERSON)


def auctions(events):
    return events.filter(lambda e: e[KIND] == AUCTION)


def bids(events):
    return events.filter(lambda e: e[KIND] == BID)


# Queries without windows -----------------------------------------------------------------------------


def q0(events):
    """Every bid as it is: what handing on a record costs."""
    return bids(events).map(lambda b: (b[TIME], b[BID_AUCTION], b[BIDDER], b[PRICE]))


def q1(events):
    """Every bid with its price in euros."""
    return bids(events).map(lambda b: (b[TIME], b[BID_AUCTION], b[BIDDER], b[PRICE] * 908 // 1000))


def q2(events):
    """The bids for some auctions."""
    return (
        bids(events)
        .filter(lambda b: b[BID_AUCTION] % 123 == 0)
        .map(lambda b: (b[TIME], b[BID_AUCTION], b[PRICE]))
    )


def q3(events):
    """Auctions of category 10 with their sellers, where these live in three states."""
    sellers = persons(events).filter(lambda p: p[STATE] in ("OR", "ID", "CA"))
    offers = auctions(events).filter(lambda a: a[CATEGORY] == 10)
    return (
        sellers.connect(offers)
        .key_by(lambda p: p[PERSON_ID], lambda a: a[SELLER], key_type=Types.LONG())
        .process(LocalOffers())
    )


class LocalOffers(KeyedCoProcessFunction):
    """Remembers a seller, and the auctions that came before their seller."""

    def open(self, runtime_context):
        self.seller = runtime_context.get_state(ValueStateDescriptor("seller", ANYTHING))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", ANYTHING))

    def process_element1(self, value, ctx):
        self.seller.update(value)
        for auction in self.waiting.get():
            yield offer(value, auction)
        self.waiting.clear()

    def process_element2(self, value, ctx):
        seller = self.seller.value()
        if seller is None:
            self.waiting.add(value)
        else:
            yield offer(seller, value)


def offer(seller, auction):
    return auction[TIME], seller[NAME], seller[CITY], seller[STATE], auction[AUCTION_ID]


def q4(events):
    """The average of the highest bids of all auctions of a category that are over, anew with each."""
    return (
        auctions(events)
        .connect(bids(events))
        .key_by(lambda a: a[AUCTION_ID], lambda b: b[BID_AUCTION], key_type=Types.LONG())
        .process(HighestBid())
        .key_by(lambda r: r[0], key_type=Types.LONG())
        .reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2]))
        .map(lambda r: (r[0], r[1] / r[2], r[2]))
    )


class HighestBid(KeyedCoProcessFunction):
    """Emits (category, highest bid, 1) when an auction is over that had bids in its time."""

    def open(self, runtime_context):
        self.auction = runtime_context.get_state(ValueStateDescriptor("auction", ANYTHING))
        self.highest = runtime_context.get_state(ValueStateDescriptor("highest", Types.LONG()))
        self.early = runtime_context.get_list_state(ListStateDescriptor("early", ANYTHING))

    def process_element1(self, value, ctx):
        self.auction.update((value[EXPIRES], value[CATEGORY]))
        ctx.timer_service().register_event_time_timer(value[EXPIRES])
        in_time = [price for time, price in self.early.get() if time <= value[EXPIRES]]
        if in_time:
            self.highest.update(max(in_time))
        self.early.clear()

    def process_element2(self, value, ctx):
        auction = self.auction.value()
        if auction is None:
            # It may still come from another task, and is over for certain after this time.
            self.early.add((value[TIME], value[PRICE]))
            ctx.timer_service().register_event_time_timer(value[TIME] + LONGEST_AUCTION)
        elif value[TIME] <= auction[0]:
            highest = self.highest.value()
            if highest is None or value[PRICE] > highest:
                self.highest.update(value[PRICE])

    def on_timer(self, timestamp, ctx):
        auction = self.auction.value()
        if auction is None:
            self.early.clear()
        elif timestamp == auction[0]:
            highest = self.highest.value()
            self.auction.clear()
            if highest is not None:
                self.highest.clear()
                yield auction[1], highest, 1


# Queries with windows --------------------------------------------------------------------------------


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class WithWindow(ProcessWindowFunction):
    """Emits (end, key, start, result)."""

    def process(self, key, context, elements):
        window = context.window()
        for result in elements:
            yield window.end, key, window.start, result


def q5(events):
    """The auctions with the most bids in the last ten seconds, every two seconds: (end, bids, auctions)."""
    counts = (
        bids(events)
        .key_by(lambda b: b[BID_AUCTION], key_type=Types.LONG())
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(2)))
        .aggregate(Count(), WithWindow(), accumulator_type=Types.LONG())
    )
    return (
        counts.key_by(lambda r: r[0], key_type=Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.seconds(2)))
        .aggregate(Hottest())
    )


class Hottest(AggregateFunction):
    """Of (end, auction, _, bids) those with most bids."""

    def create_accumulator(self):
        return 0, 0, ()

    def add(self, value, accumulator):
        end, auction, _, count = value
        return self.merge(accumulator, (end, count, (auction,)))

    def get_result(self, accumulator):
        end, count, found = accumulator
        return end, count, tuple(sorted(found))

    def merge(self, a, b):
        if a[1] == b[1]:
            return b[0], b[1], a[2] + b[2]
        return a if a[1] > b[1] else b


def q7(events):
    """The highest bid of every ten seconds: (end, price, auction, bidder)."""
    return (
        bids(events)
        .key_by(lambda b: b[BID_AUCTION], key_type=Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .reduce(higher)
        .window_all(TumblingEventTimeWindows.of(Time.seconds(10)))
        .reduce(higher)
        .map(lambda b: (b[TIME] - b[TIME] % TEN_SECONDS + TEN_SECONDS, b[PRICE], b[BID_AUCTION], b[BIDDER]))
    )


def higher(a, b):
    """The bid with the higher price, of two with the same price the earlier."""
    return a if (a[PRICE], -a[TIME]) > (b[PRICE], -b[TIME]) else b


def q8(events):
    """Persons who opened an auction within the ten seconds in which they came: (end, person, name)."""
    new_persons = persons(events).map(lambda p: (p[PERSON_ID], p[NAME]))
    sellers = auctions(events).map(lambda a: (a[SELLER], None))
    return (
        new_persons.union(sellers)
        .key_by(lambda r: r[0], key_type=Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .process(NewSellers())
    )


class NewSellers(ProcessWindowFunction):
    def process(self, key, context, elements):
        names = {name for _, name in elements}
        if len(names) == 2:
            names.remove(None)
            yield context.window().end, key, names.pop()


def q11(events):
    """How many bids a bidder made without a pause of ten seconds: (end, bidder, start, bids)."""
    return (
        bids(events)
        .key_by(lambda b: b[BIDDER], key_type=Types.LONG())
        .window(EventTimeSessionWindows.with_gap(Time.seconds(10)))
        .aggregate(Count(), WithWindow(), accumulator_type=Types.LONG())
    )


def q12(events):
    """How many bids a bidder made in a second of the machine's clock: (end, bidder, start, bids)."""
    return (
        bids(events)
        .key_by(lambda b: b[BIDDER], key_type=Types.LONG())
        .window(TumblingProcessingTimeWindows.of(Time.seconds(1)))
        .aggregate(Count(), WithWindow(), accumulator_type=Types.LONG())
    )


# Each query, whether it needs event time, and which of its results are printed: some that do not depend on how many
# events follow. What queries 4 and 12 emit on the way depends on the order of arrival and on the clock.
QUERIES = {
    "q0": (q0, False, lambda r: r[0] < 30),
    "q1": (q1, False, lambda r: r[0] < 30),
    "q2": (q2, False, lambda r: r[0] < 2_000),
    "q3": (q3, False, lambda r: r[0] < 2_000),
    "q4": (q4, True, None),
    "q5": (q5, True, lambda r: r[0] <= 10_000),
    "q7": (q7, True, lambda r: r[0] <= 10_000),
    "q8": (q8, True, lambda r: r[0] <= 10_000 and r[1] % 10 == 0),
    "q11": (q11, True, lambda r: r[0] <= 12_000),
    "q12": (q12, False, None),
}
