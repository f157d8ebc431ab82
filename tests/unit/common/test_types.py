import copy
import pickle

import pytest

from firesteel.common import Row, RowKind


def test_named_row_prints_its_fields():
    assert str(Row(f0=1, f1="a")) == "Row(f0=1, f1='a')"


def test_positional_row_prints_in_angle_brackets():
    assert str(Row(1, "a")) == "<Row(1, 'a')>"


def test_positional_and_named_values_do_not_mix():
    with pytest.raises(ValueError, match="not both"):
        Row(1, a=2)


def test_row_of_names_builds_named_rows():
    person = Row("name", "age")
    assert person("Ann", 5) == Row(name="Ann", age=5)
    assert "name" in person


def test_row_of_names_refuses_more_values_than_names():
    with pytest.raises(ValueError, match="at most 1 values"):
        Row("name")("Ann", 5)


def test_constructed_row_keeps_the_kind_of_its_constructor():
    deletion = Row.of_kind(RowKind.DELETE, "a")
    assert deletion(1).get_row_kind() is RowKind.DELETE


def test_fields_are_read_by_index_name_and_attribute():
    row = Row(a=1, b=2)
    assert (row[0], row["b"], row.a, row[-1], row[0:2]) == (1, 2, 1, 2, [1, 2])


def test_fields_are_replaced_by_index_name_and_slice():
    row = Row(a=1, b=2, c=3)
    row[0] = 10
    row["b"] = 20
    row[2:3] = [30]
    assert list(row) == [10, 20, 30]


def test_attribute_cannot_be_assigned():
    with pytest.raises(AttributeError):
        Row(a=1).a = 2


@pytest.mark.parametrize(
    ("row", "error"), [(Row(a=1), ValueError), (Row(1), KeyError)], ids=["named", "positional"]
)
def test_unknown_name_is_refused(row, error):
    with pytest.raises(error):
        row["z"]
    with pytest.raises(error):
        row["z"] = 1
    with pytest.raises(AttributeError):
        _ = row.z


def test_contains_looks_at_names_or_else_values():
    assert "a" in Row(a=1)
    assert 1 not in Row(a=1)
    assert 1 in Row(1)


def test_equal_when_names_values_and_kind_are():
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert Row(a=1) != Row(b=1)
    assert Row(a=1) != Row(1)
    assert Row(1) != Row.of_kind(RowKind.DELETE, 1)
    assert Row(1) != (1,)
    assert hash(Row(a=1)) == hash(Row(a=1)) == hash((1,))


def test_as_dict_reaches_rows_in_lists_and_dicts_when_recursive():
    row = Row(a=Row(b=1), c=[Row(d=2)], e={"k": Row(f=3)})
    assert row.as_dict(True) == {"a": {"b": 1}, "c": [{"d": 2}], "e": {"k": {"f": 3}}}
    assert row.as_dict()["a"] == Row(b=1)


def test_positional_row_cannot_become_a_dict():
    with pytest.raises(TypeError, match="set_field_names"):
        Row(1).as_dict()


def test_set_field_names_names_a_positional_row():
    row = Row(1, 2)
    row.set_field_names(["x", "y"])
    assert row == Row(x=1, y=2)


def test_fields_by_names_follow_the_order_asked_for():
    assert Row(a=1, b=2).get_fields_by_names(["b", "a"]) == [2, 1]
    assert Row(1, 2).get_fields_by_names(["b", "a"]) == [1, 2]
    with pytest.raises(ValueError, match="no such field"):
        Row(a=1).get_fields_by_names(["z"])


@pytest.mark.parametrize(
    "row", [Row(1, [2]), Row(a=1, b=None), Row.of_kind(RowKind.UPDATE_AFTER, a=1), Row()]
)
@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda row: pickle.loads(pickle.dumps(row))])
def test_row_survives_copying_and_pickling(row, clone):
    twin = clone(row)
    assert twin == row
    assert str(twin) == str(row)
    assert twin.get_row_kind() is row.get_row_kind()


def test_bulk_constructors_agree_with_the_plain_one():
    assert Row._make([1, 2], ("a", "b")) == Row(a=1, b=2)
    assert Row._make_all([(1, 2)], ("a", "b")) == [Row(a=1, b=2)]
    assert Row._make((1,), None, RowKind.DELETE) == Row.of_kind(RowKind.DELETE, 1)


def test_row_kinds_print_as_in_flink():
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]
