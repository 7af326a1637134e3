"""Malformed statistics of Delta logs."""

BAD = (
    "{",
    "",
    "[]",
    "null",
    '{"numRecords": "many"}',
    '{"numRecords": 10, "minValues": {"x": "one"}}',
    '{"numRecords": 10, "minValues": 7}',
    "{}",
    None,
    '{"numRecords": 10, "minValues": {"x": 1e400}}',
    '{"numRecords": 10, "minValues": {"x": 0.5}, "maxValues": {"x": 9.5}}',
    '\n{"numRecords":\n10}\n',
    '{"numRecords": 99999999999999999999}',
    '{"numRecords": -1, "nullCount": {"x": -5}}',
    '{"numRecords": 10, "minValues": {"x": 50}, "maxValues": {"x": 3}}',
)
