"""The events of an auction house: persons, their auctions, and bids; each a pure function of its number.

Of fifty events the first is a new person, the next three are auctions and the rest are bids. An event is a
millisecond after the one before. What looks random about an event - prices, names, how far back the auction of a
bid lies - comes from a table that is made once and repeats; numbers and times go on. So making an event is cheap,
and any number of tasks make the same events.

An event is a tuple that begins with its kind and its time; the positions of the other fields are below.
"""

import random

PERSON, AUCTION, BID = 0, 1, 2

KIND, TIME = 0, 1
PERSON_ID, NAME, EMAIL, CREDIT_CARD, CITY, STATE = 2, 3, 4, 5, 6, 7
AUCTION_ID, ITEM, DESCRIPTION, FIRST_PRICE, RESERVE, EXPIRES, SELLER, CATEGORY = 2, 3, 4, 5, 6, 7, 8, 9
BID_AUCTION, BIDDER, PRICE, CHANNEL, URL = 2, 3, 4, 5, 6

EPOCH = 50  # events: a person, three auctions, 46 bids
AUCTIONS = 3
FIRST_ID = 1000  # of persons and of auctions

SHORTEST_AUCTION = 500  # milliseconds
LONGEST_AUCTION = 8_000
CATEGORIES = range(10, 15)

_EPOCHS = 199  # in the table
_HOT = 100  # of so many auctions or persons one after the other, the first is hot
_RECENT = 100  # bids, bidders and sellers refer to one of so many latest auctions and persons
_STATES = {
    "OR": "Portland",
    "ID": "Boise",
    "CA": "San Francisco",
    "WA": "Seattle",
    "AZ": "Phoenix",
    "WY": "Cheyenne",
}


def event(number):
    """The event with this number, from 0."""
    epoch, place = divmod(number, EPOCH)
    drawn = _TABLE[number % len(_TABLE)]
    newest_person = FIRST_ID + epoch
    if place > AUCTIONS:
        auction_back, bidder_back, price, channel, url = drawn
        newest = newest_person + 2 * epoch + AUCTIONS - 1
        auction = newest - newest % _HOT if auction_back is None else newest - auction_back
        bidder = newest_person - newest_person % _HOT if bidder_back is None else newest_person - bidder_back
        return BID, number, auction, bidder, price, channel, url
    if place == 0:
        return PERSON, number, newest_person, *drawn
    seller_back, length, item, description, first_price, reserve, category = drawn
    return (
        AUCTION,
        number,
        FIRST_ID + AUCTIONS * epoch + place - 1,
        item,
        description,
        first_price,
        reserve,
        number + length,
        newest_person - newest_person % _HOT if seller_back is None else newest_person - seller_back,
        category,
    )


def _table():
    rng = random.Random(2008)
    makers = [_person, *[_auction] * AUCTIONS, *[_bid] * (EPOCH - AUCTIONS - 1)]
    return [make(rng) for _ in range(_EPOCHS) for make in makers]


def _person(rng):
    state = rng.choice(list(_STATES))
    name = f"{rng.choice('ABCDEFGH')}{rng.choice('aeiou')}n {rng.choice('KLMNOPST')}{rng.choice('aeiou')}ll"
    email = f"{name.replace(' ', '.').lower()}{rng.randrange(100)}@example.org"
    card = " ".join(f"{rng.randrange(10_000):04}" for _ in range(4))
    return name, email, card, _STATES[state], state


def _auction(rng):
    price = rng.randrange(100, 10_000)
    return (
        _back(rng),
        rng.randrange(SHORTEST_AUCTION, LONGEST_AUCTION),
        f"item {rng.randrange(1000)}",
        "as good as new, sold by its first owner; " * rng.randrange(1, 3),
        price,
        price + rng.randrange(100, 10_000),
        rng.choice(CATEGORIES),
    )


def _bid(rng):
    channel = rng.choice(["search", "portal", "social", "mail"])
    url = f"https://auctions.example.org/{channel}/{rng.randrange(10_000)}"
    return _back(rng), _back(rng), int(10 ** rng.uniform(2, 7)), channel, url


def _back(rng):
    """Half of all refer to a hot one, which is None here, the others to one of the latest."""
    return None if rng.random() < 0.5 else rng.randrange(_RECENT)


_TABLE = _table()
