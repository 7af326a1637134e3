-- Expressions over the columns of tests/spark/predicates/test_spark_coercion.py, one a line. A heading names the cases below it.

-- literals: Each against every column, by = and by <.
5
-5
127
128
5L
5Y
2147483648
3000000000
9007199254740993
9007199254740992.0D
9223372036854775807
9223372036854775808
99999999999999999999
5.5
5.0
0.1
5.
1e1
5e0
5F
0.1F
0.1D
5.5BD
16777217
16777217F
-0.0
-0.0D
1.0000000000000000000000000001
DOUBLE('NaN')
FLOAT('Infinity')
CAST('-Infinity' AS FLOAT)
NULL
'5'
'5.5'
' 5 '
'abc'
''
'NaN'
'1e1'
'99999999999'
'true'
'1'
'2024-01-01'
'2024-1-1'
'2024'
'2024-01-01 00:00:00'
'2024-01-01T00:00:00Z'
'2024-01-01 12:30:15.123456'
'2024-01-01 01:00:00+01:00'
'a'
'ab'
DATE'2024-01-01'
DATE'9999-12-31'
TIMESTAMP'2024-01-01'
TIMESTAMP'2024-07-01 00:00:00'
TIMESTAMP'2024-01-01 00:00:00Z'
TIMESTAMP'2024-03-31 02:30:00'
TIMESTAMP_NTZ'2024-01-01 00:00:00'
TIMESTAMP_NTZ'2024-07-01 02:00:00'
X'61'
X''
X'FF'
true
false
CAST(5 AS BIGINT)
CAST(5 AS DECIMAL(5,2))

-- understood: What the row evaluator answers as Spark does.
5 = i
5L < l
5.5 > i
'5' = i
0.1 = f
0.1 < f
DATE'2024-01-01' <= t
'2024-01-01' = d
NULL = i
NULL <=> i
true = b
'a' < s
X'01' < y
9223372036854775808 > l
99999999999999999999 < l
l > 9223372036854775807.5
l < 9223372036854775806.5
l < -9223372036854775808
l >= -9223372036854775808
l BETWEEN 5 AND 99999999999999999999
NOT (l > 99999999999999999999)
l = 99999999999999999999
l <> 99999999999999999999
l <=> 99999999999999999999
i8 < 99999999999999999999
l IN (99999999999999999999, 5)
l NOT IN (99999999999999999999, 5)
l < 1e20
l = 9223372036854775807.0
l < 9223372036854775807.0
i > 99999999999999999999 OR s NOT LIKE 'a!%' ESCAPE '!'
s ILIKE 'A%'
s NOT ILIKE 'A%'
s ILIKE 'a!%' ESCAPE '!'
s NOT ILIKE 'A!_C' ESCAPE '!'
s NOT ILIKE '%B%'
NOT s ILIKE 'a%'
NOT (s NOT ILIKE 'a%')
! s NOT ILIKE 'a%'
s LIKE ANY ('a%', 'z%')
s LIKE SOME ('a%', '2024%')
s LIKE ALL ('a%', '%b%')
s NOT LIKE ANY ('a%', 'z%')
s NOT LIKE SOME ('a%', 'ab%')
s NOT LIKE ALL ('a%', 'z%')
s LIKE ANY ('a%')
s NOT LIKE ALL ('a%')
s LIKE ANY ('z%', NULL)
s LIKE ALL ('a%', NULL)
s NOT LIKE ANY ('a%', NULL)
s NOT LIKE ALL ('a%', NULL)
s LIKE ANY (NULL)
s ILIKE ANY ('A%', 'Z%')
s ILIKE SOME ('A%', 'TRUE')
s ILIKE ALL ('A%', '%B%')
s NOT ILIKE ANY ('A%', 'Z%')
s NOT ILIKE SOME ('A%', 'AB%')
s NOT ILIKE ALL ('A%', 'Z%')
NOT s LIKE ANY ('a%', 'z%')
NOT s NOT LIKE ALL ('a%', 'z%')
(s LIKE ANY ('a%', 'z%')) IS NOT NULL AND s ILIKE ALL ('a%')
s RLIKE '^a'
s NOT RLIKE '^a'
s REGEXP 'b'
s NOT REGEXP 'b'
NOT s RLIKE '^a'
s LIKE r'a\%'
s LIKE 'a!%' ESCAPE "!"
s = 'a' 'b'
s = r'a' "b"
s = r'a\' OR s = r'ab'
y = X"61"
y = X '61'
i NOT IN (5, 6)
NOT i IN (5)
! i IN (5)
i NOT BETWEEN 1 AND 4
NOT i NOT BETWEEN 1 AND 4
b IS UNKNOWN
b IS NOT UNKNOWN
! b
!!b
NOT ! b
! b IS TRUE
NOT b IS NOT FALSE
i IS DISTINCT FROM NULL
NOT i IS DISTINCT FROM 5
NOT i IS NOT DISTINCT FROM 5
NOT i <=> 5
i IS DISTINCT FROM 5 AND b
i = +5
i = + 5
i = - -5
i = + - 5
i NOT IN (+5, -5)
i = 5 :: int
i > -5::int
s = 'a' || 'b'
s || 'b' = 'ab'
CAST(n AS TIMESTAMP WITHOUT TIME ZONE) = n
n = TIMESTAMP_NTZ'2024-01-01 05:00:00'
t = CAST(t AS TIMESTAMP WITH LOCAL TIME ZONE)
TRY_CAST(s AS DECIMAL(38,0)) IS NULL AND s LIKE 'a%'
TRY_CAST(s AS INT) IS NULL AND s NOT LIKE '%0%'
TRY_CAST(s AS INT) = 5
i8 < '300'
d < '2024-01-01 x'
TRY_CAST('5.5' AS INT) IS NULL AND i = 5
TRY_CAST(s AS DATE) IS NULL OR s RLIKE '[0-9]'
TRY_CAST(s AS DOUBLE) > 1 AND s <> 'é'
TRY_CAST(s AS BOOLEAN)
i IS NULL
i = 5
i <> 5
i < 5
i <= 5
i > 5
i >= 5
i == 5
i != 5
i <=> 5
i <=> 5.0
i <=> '5'
i <=> NULL
f <> 0.1
f <= 0.1
f > 0.1
f >= 0.1
f <=> 0.1
i IN (5, NULL)
i NOT IN (5, NULL)
i IN (NULL)
i NOT IN (NULL)
i IN (5, 5.5)
i IN (5L, 6)
i IN (5.0, 6.0)
i IN (5, 1e1)
i NOT IN (5, 5.5, NULL)
i IN (3000000000, 5)
i8 IN (5, 300)
l IN (9007199254740993, 1.0D)
l IN (9007199254740993, 9007199254740992.0D)
l IN (16777217F)
i IN (16777216F)
f IN (0.1, 5)
f IN (0.1D, 5)
f IN (0.1F)
f IN (0, DOUBLE('NaN'))
f NOT IN (FLOAT('NaN'))
f NOT IN (0)
f IN (-0.0D)
f IN (16777217)
g IN (0.1F)
g IN (DOUBLE('NaN'), NULL)
g NOT IN (DOUBLE('NaN'), NULL)
g IN (9007199254740993)
m IN (5, 5.5)
m IN (5.500)
m IN (0.1, 5L)
m IN (5, 0.123)
m IN (0.1D)
w IN (5, 9007199254740993)
w IN (5.5D)
m0 IN (5.5, 5)
d IN (DATE'2024-01-01', DATE'2024-07-01')
d IN (TIMESTAMP'2024-01-01')
d IN (TIMESTAMP'2024-01-01 05:00:00', DATE'2024-07-01')
t IN (DATE'2024-01-01', TIMESTAMP'2024-07-01')
t IN (TIMESTAMP_NTZ'2024-01-01 00:00:00', DATE'2024-07-01')
n IN (DATE'2024-01-01')
n IN (TIMESTAMP'2024-01-01')
n IN (TIMESTAMP_NTZ'2024-01-01', DATE'2024-07-01')
s IN ('a', 'ab')
s IN ('a', NULL)
s NOT IN ('a')
b IN (true)
b IN (true, NULL)
b NOT IN (false)
y IN (X'61', X'')
NULL IN (1, 2)
5 IN (5, 6)
NOT (i IN (5) OR i IN (6))
i BETWEEN 1 AND 5
i NOT BETWEEN 1 AND 5
i BETWEEN 5 AND 1
i BETWEEN NULL AND 5
i NOT BETWEEN NULL AND 5
i BETWEEN 0.5 AND 5.5
i BETWEEN '1' AND '5'
f BETWEEN 0.1 AND 5
f BETWEEN 0 AND DOUBLE('NaN')
g NOT BETWEEN 0 AND 5
d BETWEEN '2024-01-01' AND TIMESTAMP'2024-07-01'
t BETWEEN '2024-01-01' AND DATE'2024-07-01'
m BETWEEN 0.1 AND 5.505
s LIKE 'a%'
s LIKE 'a\\%'
s LIKE 'a\%'
s LIKE 'a!%' ESCAPE '!'
s LIKE 'a!_c' ESCAPE '!'
s LIKE 'a_c'
s LIKE '%'
s LIKE ''
s LIKE '_'
s LIKE '__'
s LIKE '%b%'
s NOT LIKE 'a%'
s LIKE NULL
s LIKE 'z_'
s LIKE 'a%c'
s LIKE 'ab%' OR s LIKE 'a!%%' ESCAPE '!'
s LIKE 'A%'
s LIKE '2024-%'
s LIKE '\\_%'
s LIKE 'a\\\\'
s LIKE 'a/%' ESCAPE '/'
i IS NULL
i IS NOT NULL
b
NOT b
!b
b = true
b <> true
b IS TRUE
b IS FALSE
b IS NOT TRUE
b IS NOT FALSE
b <=> NULL
b <=> true
b > false
b < true
b = 'true'
b = 't'
b AND i > 1
b OR i > 1
NOT (b AND i > 1)
NOT (b OR i > 1)
b AND NULL
b OR NULL
i > 1 IS TRUE
(i > 1) IS NULL
(i > 1) = true
(i > 1) <=> NULL
(i > 1) IS NOT TRUE
NOT NOT b
NOT (i <=> 5)
i IS DISTINCT FROM 5
i IS NOT DISTINCT FROM NULL
i = i
i <> i
i <=> i
f = f
f <> f
f >= f
true
false
NULL
1 = 1
NULL = 1
1 = 1.0
'5' = 5
NULL <=> NULL
FALSE OR i > 1
i IS NULL AND i > 3
f = DOUBLE('NaN')
f > DOUBLE('NaN')
f >= DOUBLE('NaN')
f < DOUBLE('NaN')
f <= DOUBLE('NaN')
f <> DOUBLE('NaN')
NOT (f > 5)
i = DOUBLE('NaN')
i < DOUBLE('NaN')
m >= DOUBLE('NaN')
i > DOUBLE('Infinity')
l < FLOAT('Infinity')
l < CAST('-Infinity' AS DOUBLE)
l > 9223372036854775807D
l = 9223372036854775807D
l < -9223372036854775808D
l <= 9223372036854775806D
l > 9007199254740992D
w = 9007199254740992D
w > 9007199254740993D
m = 0.1D
m = 0.1F
m > 0.1F
i = 2 + 3
i = -(-5)
i = - 5
f = CAST(0.1 AS FLOAT)
f <= 3.4028235e38
f > 3.4028234663852886e38
f = 3.4028235677973366e38
f < 1e300
f = 1e-45
f > 1e-46
f < 7e-46
f = -0.0D
f < 0.0
g = -0.0F
g = 0.1F
d = ' 2024-01-01 '
d = TIMESTAMP'2024-01-01 00:00:00'
d < TIMESTAMP'2024-01-01 00:00:01'
d > TIMESTAMP'2023-12-31 23:59:59.999999'
d < TIMESTAMP_NTZ'2024-01-01 00:00:01'
d = TIMESTAMP'2024-01-01 00:00:00Z'
d <=> TIMESTAMP'2024-07-01 04:00:00Z'
t > '2024-01-01 12:30'
t = '2024-01-01 12:30:15.123456 UTC'
t > '2024-01-01 00:00:00+01:00'
t > '2024-01-01 1:2:3.4'
t = DATE'2024-07-01'
t >= TIMESTAMP_NTZ'2024-07-01 00:00:00'
t <= TIMESTAMP'9999-12-30 00:00:00Z'
t > TIMESTAMP'2024-10-27 02:30:00'
t > '2024-03-31 02:30:00'
t > TIMESTAMP'2024-03-10 02:30:00'
t > TIMESTAMP'2024-11-03 01:30:00'
n = '2024-01-01T05:00:00'
n > DATE'2024-01-01'
n = TIMESTAMP'2024-01-01 05:00:00'
n > TIMESTAMP'2024-01-01 00:00:00Z'
s = 'a'
s = "a"
s > 'a'
s < 'é'
s < 'z'
s <= 'z😀'
s = ''
s = 'it''s'
s = 'a\tb'
s = r'a\tb'
s = '\u00e9'
s <=> 'a'
s = 'A'
y = X'6'
y < X'FF'
y <=> X''
i = CAST('5' AS INT)
m = CAST('5.5' AS DECIMAL(9,2))
i = CAST(NULL AS INT)
i <=> CAST(NULL AS INT)
f > CAST(0.1 AS DECIMAL(2,1))
t = CAST(DATE'2024-01-01' AS TIMESTAMP)
i < 2147483648
i > -2147483649
i >= -2147483648
i8 < 128
i8 >= -128
i8 < 128.5
i16 > 32767
m < 10000000
m < 9999999.995
m0 > 99999.5
m0 < 5.01
w < 1e30
w > 0.05
m = 5.50000
m = 5.501
m > 5.499
m < -4.995
m = 1e1
m = 5.5F
m0 = '5'
w = '0.1'
m = '5.5'
i = l
s ILIKE 'A%'
s RLIKE 'a.*'
startswith(s, 'a')
(i > 1) = b
COALESCE(i, 0) = 0
isnan(f)
i = 10 / 2
CAST(i AS BIGINT) = 5
year(d) = 2024
i IN (i, 5)
d = DATE'2024-01-01' + INTERVAL 1 DAY
i = CAST(5.7 AS INT)
m = CAST(5.555 AS DECIMAL(9,2))
m = CAST(5.5D AS DECIMAL(9,2))
d > '10000-01-01'
n = '2024-01-01 05:00:00Z'
d < '+12345-06-07'
n < '12345-01-01 00:00:00'
n <= CAST('294247-01-10 04:00:54.775807Z' AS TIMESTAMP_NTZ)
n < '2024-01-01 05:00:00+09:00'
i IN (5, '5')
d IN ('2024-01-01', DATE'2024-07-01')
d = '2024-01-01 00:00:00'
t > '2024-01-01 00:00:00 Europe/Berlin'
s = X'61'
y = 'a'
s = -5::string
d = TIMESTAMP '2024-01-01 23:30:00-10:00'::date
n = TIMESTAMP '2024-06-30 18:00:00 America/New_York'::timestamp_ntz
n <= TIMESTAMP '2024-01-01 00:00:00+09:00'::timestamp_ntz
t >= TIMESTAMP_NTZ '2024-07-01 00:00:00'::timestamp
t = TIMESTAMP_NTZ '2024-01-01 05:00:00+07:00'::date::timestamp
s = DATE '2024-1-1'::string
d = DATE '2024-07-01'::string::date
d <=> CAST(NULL AS STRING)
i >>> 1 = 2
i << 1 = 4
hash(i, s) = hash(2, 'a')
pmod(xxhash64(i), 3) = 1
bround(f, 0) = 2

-- declined: Spark answers these, and they stay UNKNOWN here.
i <=> CAST(NULL AS DECIMAL(38,38))
m <=> CAST(NULL AS DECIMAL(38,37))
l > -99999999999999999999
l < CAST(99999999999999999999 AS DECIMAL(20,0))
w IN (0.10000000001)
d = DATE'today'
t = '2024-01-01 12:30:15.1234567'
t > '12:30:15'
m > 99999999999999999999999999999999999999
s LIKE ANY ('a%', s)
i <=> 5 = true
i = 5 <=> true = b
s ILIKE NULL
s NOT ILIKE NULL
y IN (X'61') AND '1' || 5 + 1 = 16
s ILIKE 'É%'
s ILIKE 'abc' ESCAPE 'A'
parse_json('{"a": 5}'):a::int = i
f = 1.00000017881393432617187499e0F
user = s
s COLLATE UTF8_LCASE = 'A'
CAST(s AS STRING COLLATE UTF8_LCASE) = 'A'

-- raising: Spark raises on some row, in ANSI mode at least: UNKNOWN, so that no container is NEVER or ALWAYS by them.
d = '2024-02-30'
t > '2024-01-01 24:00:00'
s LIKE s
s LIKE 'a!b' ESCAPE '!'
s LIKE ANY ('a%', 'a\\b')
s NOT ILIKE 'a!b' ESCAPE '!'
+ s = '5'
'1' || i + 1 = 16

-- overflowing: Spark raises on some row in ANSI mode, and answers without it.
i + 1 >> 1 << 2 & 6 = 4
round(i, -1) = 0
bin(5) <=> CAST(NULL AS DATE)
'abc' <=> CAST(NULL AS DATE)
CAST(NULL AS DATE) <=> 'abc'
s <=> CAST(NULL AS DATE)
i + 1 = 6
-i = 5
abs(i) = 5
i8 = CAST(300 AS TINYINT)
i * i > 10
l - 1 < 0
i / 0 = 1
i % 0 = 1
CAST(l AS INT) = 5
d = 'abc'
d = '2024-13-01'
t = 'abc'
i = 'abc'
m = 'z'
b = 'maybe'
i = '5.5'
i <> '5.0'
i <=> '5.5 '
i < '-4.9'
i = '.'
i >= '-.5'
i BETWEEN '1.5' AND '6'
i = '5.x'
i = '5..'
i = '2147483647.9'
i <=> '2147483648.0'
i8 <= '127.9'
i8 > '-128.9'
i8 <=> '128.0'
l = '5.5'
l < '9223372036854775807.5'
l >= '-9223372036854775808.9'
l <=> '9223372036854775808.1'
i = CAST('5.7' AS INT)
t = '2024-01-01 x'

-- refused: Spark's analyser refuses these.
i = true
d = 5
t = 5
y > 5
d = X'61'
i = X'61'
b = 5.5
i = DATE'2024-01-01'
n = 1.5D
