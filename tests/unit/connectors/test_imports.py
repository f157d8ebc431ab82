def test_pyflink_import_paths_work():
    from firesteel.datastream.connectors import NumberSequenceSource
    from firesteel.datastream.connectors.base import DeliveryGuarantee, Sink, Source
    from firesteel.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
    from firesteel.datastream.connectors.number_seq import NumberSequenceSource as SameSource

    assert SameSource is NumberSequenceSource
    assert issubclass(NumberSequenceSource, Source)
    assert issubclass(DataGeneratorSource, Source)
    assert [guarantee.name for guarantee in DeliveryGuarantee] == ["EXACTLY_ONCE", "AT_LEAST_ONCE", "NONE"]
    assert isinstance(Sink, type)
    assert RateLimiterStrategy.no_op().records_per_second is None
