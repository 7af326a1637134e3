"""Words of Spark SQL for `tests/support/spark/grammar.py`: scalars and literals by type family.

`{I}` is an expression of a family, `{i}` a literal of it; other holes are listed in `WORDS`.
"""

from typing import Final

TYPE_NAMES: Final = {
    "B": "BOOLEAN", "I": "INT", "F": "DOUBLE", "M": "DECIMAL(20,4)", "S": "STRING", "D": "DATE",
    "T": "TIMESTAMP", "Z": "TIMESTAMP_NTZ", "Y": "BINARY",
}  # fmt: skip

# Words that fill a hole, and literals of each family.
_WORDS: Final = {
    "k": """
0 ;; 1 ;; 2 ;; 3 ;; -1 ;; 7 ;; 10 ;; 100
""",
    "bits": """
0 ;; 1 ;; 2 ;; 7 ;; 31 ;; 33 ;; 63 ;; -1
""",
    "nth": """
1 ;; 2 ;; 3 ;; 0 ;; -1 ;; -2 ;; 5
""",
    "ch": """
'a' ;; 'b' ;; '0' ;; '' ;; ' ' ;; '-' ;; 'é' ;; 'ab' ;; '%' ;; 'x'
""",
    "whole": """
INT ;; BIGINT ;; SMALLINT ;; TINYINT ;; LONG ;; INTEGER ;; BYTE ;; SHORT
""",
    "real": """
DOUBLE ;; FLOAT ;; REAL
""",
    "dec": """
DECIMAL(9,2) ;; DECIMAL(20,0) ;; DEC(38,10) ;; NUMERIC(5,1) ;; DECIMAL ;; DECIMAL(38,0)
""",
    "cast": """
CAST ;; CAST ;; TRY_CAST
""",
    "unit": """
YEAR ;; QUARTER ;; MONTH ;; WEEK ;; DAY ;; DAYOFYEAR ;; HOUR ;; MINUTE ;; SECOND
MILLISECOND ;; MICROSECOND ;; month ;; day
""",
    "part": """
YEAR ;; QUARTER ;; MONTH ;; WEEK ;; DAY ;; DAYOFWEEK ;; DOW ;; DOW_ISO ;; DOY
DAYOFWEEK_ISO ;; YEAROFWEEK ;; month ;; days
""",
    "clock": """
HOUR ;; MINUTE ;; YEAR ;; MONTH ;; DAY ;; hours ;; DOY
""",
    "trunc": """
'YEAR' ;; 'MM' ;; 'MONTH' ;; 'QUARTER' ;; 'WEEK' ;; 'yy' ;; 'mon' ;; 'DAY'
""",
    "datetrunc": """
'YEAR' ;; 'MONTH' ;; 'DAY' ;; 'HOUR' ;; 'MINUTE' ;; 'SECOND' ;; 'WEEK' ;; 'QUARTER'
'MILLISECOND' ;; 'dd' ;; 'MICROSECOND'
""",
    "day": """
'MO' ;; 'Sunday' ;; 'fri'
""",
    "format": """
'yyyy-MM-dd' ;; 'yyyyMM' ;; 'HH:mm' ;; 'y' ;; 'D'
""",
    "zone": """
'UTC' ;; 'America/New_York' ;; '+02:00' ;; 'Asia/Kolkata' ;; 'Europe/Berlin'
""",
    "days": """
INTERVAL 1 DAY ;; INTERVAL '3' DAYS ;; INTERVAL 2 MONTHS ;; INTERVAL '1' YEAR
INTERVAL -1 MONTH ;; INTERVAL 1 WEEK ;; INTERVAL '-2' DAY
INTERVAL '1-1' YEAR TO MONTH
""",
    "time": """
INTERVAL 1 HOUR ;; INTERVAL '90' MINUTE ;; INTERVAL '1 02:00:00' DAY TO SECOND
INTERVAL '0.000001' SECOND ;; INTERVAL 1 DAY ;; INTERVAL 1 MONTH ;; INTERVAL -30 SECONDS
INTERVAL 1 DAY 2 HOURS ;; make_interval(0, 1) ;; INTERVAL '1 day 3 hours'
""",
    "re": """
'a' ;; '[0-9]+' ;; '^k' ;; '.' ;; '(a)(b)?' ;; 'b$'
""",
    "field": """
year ;; month ;; day ;; hour ;; minute ;; second
""",
}

_CONSTANTS: Final = {
    "B": """
TRUE ;; FALSE ;; true ;; CAST('t' AS BOOLEAN) ;; 'true' ;; 1 = 1
""",
    "I": """
0 ;; 1 ;; -1 ;; 2 ;; 5 ;; 7 ;; 100 ;; 3L ;; 2S ;; 1Y ;; 2147483647
9223372036854775807 ;; -9223372036854775808L ;; -128Y ;; '3' ;; CAST(4 AS SMALLINT)
2::bigint ;; INT('5')
""",
    "F": """
0.0 ;; 1.5 ;; -2.5D ;; 1e0 ;; 2.5E1 ;; 1.5F ;; 1e-3 ;; -0.0D ;; double('NaN') ;; 0D
CAST('NaN' AS FLOAT) ;; float('inf') ;; double('-Infinity') ;; .5 ;; 3. ;; 1.0E400BD
""",
    "M": """
0.0 ;; 1.25 ;; -3.5 ;; 2.50BD ;; 100BD ;; 12345678901234567890.5 ;; .5 ;; 1e2BD
""",
    "S": r"""
'' ;; 'a' ;; 'ab' ;; "k0" ;; 'Z' ;; r'a\b' ;; 'it''s' ;; '\u00e9' ;; '\'' ;; '5'
'2024-01-01' ;; '日本' ;; 'a' 'b' ;; 'true' ;; ' a ' ;; '\x41' ;; '\101' ;; "it's"
""",
    "D": """
DATE '2024-01-01' ;; DATE'2024-1-5' ;; date '1970-01-01' ;; DATE '1582-10-04'
'2024-01-02' ;; DATE '0001-01-01' ;; TIMESTAMP '2024-01-01 00:00:00'
DATE '1899-12-31' ;; DATE '9999-12-31' ;; '2024-01'
TIMESTAMP_NTZ '2024-01-01 12:00:00' ;; to_date('2024-01-03')
""",
    "T": """
TIMESTAMP '2024-01-01 00:00:00' ;; TIMESTAMP '2024-01-01 05:00:00+02:00'
'2024-01-01 12:00:00' ;; TIMESTAMP_LTZ '1970-01-01 00:00:00' ;; DATE '2024-01-02'
TIMESTAMP '2024-11-03 01:30:00 America/New_York' ;; TIMESTAMP '1883-11-18 12:00:00'
TIMESTAMP '2024-03-31T02:30:00.123456Z' ;; '2024-01-01' ;; TIMESTAMP '1500-01-01'
""",
    "Z": """
TIMESTAMP_NTZ '2024-01-01 00:00:00' ;; TIMESTAMP_NTZ '1970-01-01' ;; DATE '2024-01-01'
'2024-01-01 00:00:01' ;; TIMESTAMP_NTZ '1900-01-01 00:00:00.000001'
""",
    "Y": """
X'' ;; X'61' ;; x'6b30' ;; X'FF' ;; X'f' ;; CAST('a' AS BINARY) ;; encode('ab', 'utf-8')
""",
    "V": """
INTERVAL '1' DAY ;; INTERVAL 3 HOURS ;; INTERVAL '1 02:03:04.5' DAY TO SECOND
INTERVAL '-5' MINUTE ;; INTERVAL 1 WEEK ;; - INTERVAL 2 DAYS ;; INTERVAL '0' SECOND
""",
    "W": """
INTERVAL '1' YEAR ;; INTERVAL '1-2' YEAR TO MONTH ;; INTERVAL -3 MONTH
INTERVAL 14 MONTHS
""",
    "A": """
array(1, 2) ;; array() ;; array(1, NULL) ;; array(0)
""",
    "P": """
map('a', 1) ;; map('b', NULL)
""",
}

_SCALARS: Final = {
    "B": """
isnull({X}) ;; isnotnull({X}) ;; isnan({F}) ;; contains({S}, {ch})
startswith({S}, {ch}) ;; endswith({S}, {ch}) ;; like({S}, {pattern})
ilike({S}, {pattern}) ;; like({S}, {pattern}, '!') ;; regexp_like({S}, {re})
rlike({S}, {re}) ;; array_contains({A}, {k}) ;; exists({A}, q -> q > {k})
forall({A}, q -> q IS NULL OR q < {k}) ;; map_contains_key({P}, {ch})
equal_null({I}, {k}) ;; equal_null({S}, {s}) ;; CAST({S} AS BOOLEAN)
TRY_CAST({S} AS BOOLEAN) ;; CAST({I} AS BOOLEAN) ;; boolean({I})
if({cond}, {B}, {cond}) ;; coalesce({B}, {b}) ;; nvl({B}, {cond})
CASE WHEN {cond} THEN {B} WHEN {cond} THEN {cond} ELSE {b} END
CASE {I} WHEN {k} THEN {cond} WHEN {k} THEN {b} END ;; nullif({B}, {b}) ;; ({cond})
not({B}) ;; {B} IS NOT TRUE ;; greatest({B}, {cond}) ;; {B} = {cond} ;; {X} IS NULL
arrays_overlap({A}, {a}) ;; size(filter({A}, q -> q = {k})) > 0 ;; startswith({Y}, {y})
try_to_number({S}, '999') IS NULL ;; raise_error({S}) IS NULL
assert_true({B}) IS NULL ;; mod({I}, {k}) = 1 ;; ({I} & {k}) <> 0
{S} IN ({ch}, {ch}, {s}) ;; {I} BETWEEN {k} AND {k} + 5
struct({I}, {S}) = struct({k}, {s}) ;; struct({I}) IN (struct({k}), struct({i}))
{A} = {a} ;; {A} < {a}
""",
    "I": """
{I} + {k} ;; {I} + {I} ;; {I} - {I} ;; {I} * {k} ;; {I} DIV {k} ;; {N} div {I}
{I} % {k} ;; mod({I}, {k}) ;; pmod({I}, {k}) ;; -{I} ;; + {I} ;; - - {I} ;; ~{I}
{I} & {k} ;; {I} | {k} ;; {I} ^ {k} ;; {I} & {k} | {I} ;; {I} << {bits} ;; {I} >> {bits}
{I} >>> {bits} ;; shiftleft({I}, {bits}) ;; shiftright({I}, {bits})
shiftrightunsigned({I}, {bits}) ;; abs({I}) ;; bit_count({I}) ;; length({S})
char_length({S}) ;; octet_length({S}) ;; bit_length({S}) ;; length({Y}) ;; ascii({S})
instr({S}, {ch}) ;; locate({ch}, {S}) ;; locate({ch}, {S}, {nth})
position({ch} IN {S}) ;; position({ch}, {S}) ;; levenshtein({S}, {ch})
find_in_set({ch}, {S}) ;; charindex({ch}, {S}) ;; year({D}) ;; month({T})
quarter({D}) ;; day({Z}) ;; dayofmonth({D}) ;; dayofyear({D}) ;; dayofweek({T})
weekday({D}) ;; weekofyear({D}) ;; hour({T}) ;; minute({T}) ;; second({T}) ;; hour({Z})
extract({part} FROM {D}) ;; extract({clock} FROM {T}) ;; EXTRACT({clock} FROM {Z})
date_part('{part}', {D}) ;; datepart('{clock}', {T}) ;; datediff({D}, {D})
date_diff({D}, {d}) ;; datediff({unit}, {T}, {t}) ;; date_diff({unit}, {d}, {D})
timestampdiff({unit}, {t}, {T}) ;; months_between({D}, {d}) :: INT ;; unix_date({D})
unix_seconds({T}) ;; unix_millis({T}) ;; unix_micros({T}) ;; unix_timestamp({T})
to_unix_timestamp({T}) ;; unix_timestamp({S}, 'yyyy-MM-dd') ;; crc32({Y}) ;; crc32({S})
hash({X}) ;; hash({I}, {S}) ;; xxhash64({X}) ;; size({A}) ;; cardinality({A})
size({P}) ;; array_position({A}, {k}) ;; {A}[0] ;; {A}[1] ;; element_at({A}, {nth})
try_element_at({A}, {nth}) ;; get({A}, {k}) ;; {P}['a'] ;; {P}[{ch}]
element_at({P}, {ch}) ;; array_max({A}) ;; array_min({A})
aggregate({A}, 0, (acc, q) -> acc + coalesce(q, 0)) ;; array({I}, {k})[0]
named_struct('q', {I}, 'r', {S}).q ;; map('a', {I})['a'] ;; {cast}({N} AS {whole})
{cast}({S} AS {whole}) ;; {cast}({T} AS BIGINT) ;; {cast}({B} AS {whole}) ;; {N}::int
{S}::bigint ;; int({N}) ;; bigint({N}) ;; smallint({I}) ;; coalesce({I}, {k})
nvl({I}, {I}) ;; ifnull({I}, {k}) ;; nvl2({X}, {I}, {k}) ;; nullif({I}, {k})
nullifzero({I}) ;; zeroifnull({I}) ;; if({cond}, {I}, {k})
CASE WHEN {cond} THEN {I} ELSE {k} END ;; CASE WHEN {cond} THEN {I} END
CASE {I} WHEN {k} THEN {I} WHEN {i} THEN {k} ELSE {I} END
CASE {S} WHEN {s} THEN 1 WHEN {ch} THEN 2 ELSE 0 END ;; decode({I}, {k}, {k}, {i}, {k})
greatest({I}, {k}, {I}) ;; least({I}, {k}) ;; floor({F}) ;; ceil({N}) ;; ceiling({M})
round({I}, -1) ;; bround({I}, -1) ;; factorial({I} % 10) ;; getbit({I}, 0)
width_bucket({F}, 0, 10, 5) ;; try_add({I}, {I}) ;; try_subtract({I}, {i})
try_multiply({I}, {k}) ;; try_mod({I}, {k}) ;; sign({I})::int ;; positive({I})
negative({I}) ;; conv({S}, 10, 16)::int ;; date_from_unix_date({I}) - DATE '1970-01-01'
day({V}) ;; extract(DAY FROM {V}) ;; extract(HOUR FROM {V}) ;; extract(YEAR FROM {W})
ltrim({S})::int ;; to_number({S}, '999') ;; regexp_count({S}, {re})
regexp_instr({S}, {re})
""",
    "F": """
{N} / {k} ;; {I} / {N} ;; {F} + {N} ;; {F} - {F} ;; {F} * {k} ;; {F} % {k} ;; -{F}
abs({F}) ;; sqrt({N}) ;; cbrt({F}) ;; exp({F}) ;; ln({N}) ;; log({N}) ;; log(2, {N})
log10({N}) ;; log2({N}) ;; log1p({F}) ;; expm1({F}) ;; pow({F}, {k}) ;; power({I}, 2)
sin({F}) ;; cos({F}) ;; atan({F}) ;; tanh({F}) ;; degrees({F}) ;; radians({F})
rint({F}) ;; sign({N}) ;; signum({F}) ;; hypot({F}, {k}) ;; nanvl({F}, {f})
{cast}({N} AS {real}) ;; {cast}({S} AS {real}) ;; {cast}({T} AS DOUBLE) ;; double({N})
float({N}) ;; {S}::double ;; coalesce({F}, {f}) ;; nullif({F}, {f})
if({cond}, {F}, {f}) ;; CASE WHEN {cond} THEN {F} ELSE {I} END ;; greatest({F}, {f})
least({F}, {I}) ;; round({F}, 1) ;; bround({F}, 1) ;; try_divide({N}, {k}) ;; pi() * {F}
months_between({D}, {d}) ;; atan2({F}, {k}) ;; cot({F}) ;; to_number({S}, '9.9')::double
asin({F}) ;; acos({F}) ;; sinh({F}) ;; cosh({F}) ;; tan({F}) ;; sec({F}) ;; csc({F})
atan2({F}, {F}) ;; hypot({F}, {N}) ;; log({N}, {F}) ;; pow({F}, {F}) ;; pow({N}, 0.5)
pow({F}, -1) ;; ln(exp({F})) ;; sin({F}) * cos({F}) ;; round(exp({F}), 2)
""",
    "M": """
{M} + {M} ;; {M} - {k} ;; {M} * {M} ;; {M} / {k} ;; {M} % {k} ;; -{M} ;; abs({M})
{M} + 1.5 ;; {I} * 0.5 ;; {cast}({N} AS {dec}) ;; {cast}({S} AS {dec})
{M}::decimal(12,1) ;; decimal({I}) ;; round({M}, 1) ;; round({M}) ;; bround({M}, 1)
floor({M}) ;; ceil({M}, 1) ;; floor({M}, 1) ;; coalesce({M}, {m}) ;; greatest({M}, {I})
least({M}, {m}) ;; nullif({M}, {m}) ;; CASE WHEN {cond} THEN {M} ELSE {k} END
try_add({M}, {m}) ;; try_divide({M}, {k}) ;; pmod({M}, {k}) ;; extract(SECOND FROM {T})
extract(SECONDS FROM {Z}) ;; to_number({S}, '99.9')
""",
    "S": """
upper({S}) ;; lower({S}) ;; ucase({S}) ;; lcase({S}) ;; initcap({S})
substring({S}, {nth}) ;; substring({S}, {nth}, {k}) ;; substr({S}, {nth}, 2)
SUBSTRING({S} FROM {nth}) ;; SUBSTRING({S} FROM {nth} FOR {k})
substr({S} FROM {nth} FOR 1) ;; left({S}, {k}) ;; right({S}, {k}) ;; trim({S})
TRIM(BOTH FROM {S}) ;; TRIM(BOTH {ch} FROM {S}) ;; TRIM(LEADING {ch} FROM {S})
TRIM(TRAILING FROM {S}) ;; trim({ch} FROM {S}) ;; trim({S}, {ch}) ;; btrim({S})
btrim({S}, {ch}) ;; ltrim({S}) ;; ltrim({ch}, {S}) ;; rtrim({S}) ;; lpad({S}, {k}, {ch})
rpad({S}, {k}, {ch}) ;; lpad({S}, {k}) ;; concat({S}, {S}) ;; concat({S}, {ch}, {I})
{S} || {ch} ;; {ch} || {S} ;; {S} || {I} ;; concat_ws('-', {S}, {ch})
replace({S}, {ch}, {ch}) ;; replace({S}, {ch}) ;; translate({S}, 'ab', 'xy')
reverse({S}) ;; repeat({S}, {k}) ;; split_part({S}, {ch}, {nth}) ;; split({S}, '-')[0]
regexp_replace({S}, {re}, 'x') ;; regexp_extract({S}, {re}, 0)
regexp_substr({S}, {re}) ;; OVERLAY({S} PLACING {ch} FROM {nth})
OVERLAY({S} PLACING {ch} FROM {nth} FOR {k}) ;; overlay({S}, {ch}, {nth}, {k})
md5({S}) ;; sha1({S}) ;; sha2({S}, 256) ;; hex({S}) ;; hex({I}) ;; bin({I})
base64({Y}) ;; CAST({N} AS STRING) ;; CAST({D} AS STRING) ;; CAST({T} AS STRING)
CAST({B} AS STRING) ;; CAST({Y} AS STRING) ;; TRY_CAST({X} AS STRING)
CAST({S} AS VARCHAR(3)) ;; CAST({S} AS CHAR(4)) ;; {X}::string ;; string({N})
date_format({T}, {format}) ;; date_format({D}, {format}) ;; soundex({S}) ;; chr({I})
char({I}) ;; format_number({F}, 2) ;; format_string('%s-%s', {S}, {I})
elt({k}, {S}, {ch}) ;; substring_index({S}, {ch}, {k}) ;; coalesce({S}, {ch})
nvl({S}, '') ;; nvl2({S}, {S}, {ch}) ;; nullif({S}, {s}) ;; if({cond}, {S}, {ch})
CASE WHEN {cond} THEN {S} ELSE {ch} END ;; CASE {S} WHEN {s} THEN {ch} END
decode({S}, {s}, {ch}, {ch}) ;; greatest({S}, {ch}) ;; least({S}, {s}) ;; monthname({D})
dayname({D}) ;; from_unixtime({I}, 'yyyy') ;; conv({S}, 10, 16) ;; space({k})
left({S}, 1) || right({S}, 1) ;; to_char({I}, '999') ;; mask({S})
array_join(split({S}, ''), '.') ;; {S} COLLATE UTF8_BINARY ;; {S} COLLATE UTF8_LCASE
collate({S}, 'UNICODE_CI') ;; collation({S}) ;; decode(encode({S}, 'utf-8'), 'utf-8')
url_encode({S}) ;; to_json(named_struct('a', {I})) ;; get_json_object({S}, '$.a')
typeof({X}) ;; quote({S})
""",
    "D": """
date_add({D}, {k}) ;; date_sub({D}, {k}) ;; dateadd({D}, {k}) ;; dateadd(DAY, {k}, {D})
dateadd(MONTH, {k}, {D})::date ;; {D} + {k} ;; {D} - {k} ;; {D} + {days} ;; {D} - {days}
{days} + {D} ;; add_months({D}, {k}) ;; last_day({D}) ;; next_day({D}, {day})
trunc({D}, {trunc}) ;; to_date({S}) ;; to_date({S}, 'yyyy-MM-dd') ;; {cast}({S} AS DATE)
{cast}({T} AS DATE) ;; {cast}({Z} AS DATE) ;; {T}::date ;; date({T}) ;; date({S})
make_date({k} + 2020, {nth}, {nth}) ;; make_date(year({D}), 1, 1)
date_from_unix_date({I}) ;; coalesce({D}, {d}) ;; nullif({D}, {d})
if({cond}, {D}, {d}) ;; CASE WHEN {cond} THEN {D} ELSE {d} END ;; greatest({D}, {d})
least({D}, {d}) ;; date_trunc({datetrunc}, {D})::date ;; try_to_date({S})
""",
    "T": """
date_trunc({datetrunc}, {T}) ;; date_trunc({datetrunc}, {D})
trunc({T}, {trunc})::timestamp ;; {T} + {time} ;; {T} - {time} ;; {time} + {T}
{D} + INTERVAL 1 HOUR ;; timestampadd({unit}, {k}, {T}) ;; dateadd({unit}, {k}, {T})
date_add({unit}, {k}, {T}) ;; timestampadd({unit}, {k}, {D}) ;; to_timestamp({S})
to_timestamp({S}, 'yyyy-MM-dd') ;; try_to_timestamp({S}) ;; {cast}({S} AS TIMESTAMP)
{cast}({D} AS TIMESTAMP) ;; {cast}({Z} AS TIMESTAMP) ;; {cast}({I} AS TIMESTAMP)
{D}::timestamp ;; timestamp({D}) ;; timestamp_seconds({I}) ;; timestamp_millis({I})
timestamp_micros({I}) ;; from_utc_timestamp({T}, {zone})
to_utc_timestamp({T}, {zone}) ;; convert_timezone('UTC', {zone}, {Z})::timestamp
make_timestamp(2024, {nth}, {nth}, 1, 2, 3.5) ;; coalesce({T}, {t})
if({cond}, {T}, {t}) ;; greatest({T}, {t}) ;; nullif({T}, {t})
CASE WHEN {cond} THEN {T} END ;; date_trunc({datetrunc}, {Z})
""",
    "Z": """
{cast}({D} AS TIMESTAMP_NTZ) ;; {cast}({T} AS TIMESTAMP_NTZ)
{cast}({S} AS TIMESTAMP_NTZ) ;; {Z} + {time} ;; {Z} - {time}
timestampadd({unit}, {k}, {Z}) ;; to_timestamp_ntz({S}) ;; {T}::timestamp_ntz
coalesce({Z}, {z}) ;; greatest({Z}, {z}) ;; nullif({Z}, {z})
convert_timezone('UTC', {zone}, {Z})
""",
    "Y": """
CAST({S} AS BINARY) ;; {S}::binary ;; encode({S}, 'utf-8') ;; unhex(hex({S}))
substring({Y}, {nth}, {k}) ;; left({Y}, {k}) ;; {Y} || {y} ;; concat({Y}, {Y})
to_binary({S}, 'utf-8') ;; coalesce({Y}, {y}) ;; nullif({Y}, {y})
unbase64(base64({Y})) ;; CAST({I} AS BINARY) ;; overlay({Y}, {y}, 1, 1)
lpad({Y}, {k}, {y}) ;; reverse({Y})
""",
    "V": """
{T} - {T} ;; {Z} - {z} ;; {D} - {D} ;; {T} - {t} ;; {V} * {k} ;; {V} + {v} ;; -{V}
abs({V}) ;; make_dt_interval({k}, {k}) ;; coalesce({V}, {v})
CAST({S} AS INTERVAL DAY TO SECOND) ;; CAST({I} AS INTERVAL DAY)
""",
    "W": """
{W} + {w} ;; {W} * {k} ;; -{W} ;; make_ym_interval({k}, {k}) ;; abs({W})
CAST({I} AS INTERVAL MONTH)
""",
    "A": """
sort_array({A}) ;; array_distinct({A}) ;; array({I}, {k}) ;; transform({A}, q -> q + 1)
filter({A}, q -> q > {k}) ;; slice({A}, 1, 2) ;; array_compact({A}) ;; reverse({A})
coalesce({A}, {a}) ;; array_remove({A}, {k}) ;; concat({A}, {a})
""",
    "P": """
map_filter({P}, (q, w) -> w > {k}) ;; map('a', {I})
""",
}


def _split(texts: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(one for line in text.splitlines() if line for one in line.split(" ;; "))
        for name, text in texts.items()
    }


WORDS: Final = _split(_WORDS)
CONSTANTS: Final = _split(_CONSTANTS)
SCALARS: Final = _split(_SCALARS)
