-- Scalar expressions over the columns of tests/spark/predicates/test_spark_coercion.py, one a line: every function, with its odd arguments.
i + 1
i8 + i8
i8 + 1
i - l
l * 2
l * l
i * i
-i
-l
-i8
-g
abs(i)
abs(l)
abs(i8)
abs(g)
abs(m)
i / 2
l / 3
i / i
l / 0
g / 2
g / g
f / 2
f + 1
f + f
f + g
f * f
g * g
g - g
f + l
m + m
m + 1
m - 0.5
m * m
m * 2
m / 3
m / m
m / i
m % 3
m + g
i % 3
i % -3
l % i
l % 7
g % 3
f % 2
pmod(i, 3)
pmod(i, -3)
pmod(l, 7)
pmod(m, 3)
i div 2
l div -1
l div i
m div 2
-m
mod(i, 5)
CAST(i AS TINYINT)
CAST(l AS INT)
CAST(l AS SMALLINT)
CAST(i AS BIGINT)
CAST(i AS FLOAT)
CAST(l AS FLOAT)
CAST(l AS DOUBLE)
CAST(i AS DECIMAL(12,2))
CAST(i AS DECIMAL(5,2))
CAST(l AS DECIMAL(38,10))
CAST(l AS DECIMAL(10,0))
CAST(g AS INT)
CAST(g AS BIGINT)
CAST(g AS TINYINT)
CAST(f AS INT)
CAST(f AS BIGINT)
CAST(f AS DOUBLE)
CAST(g AS FLOAT)
CAST(g AS DECIMAL(10,2))
CAST(f AS DECIMAL(10,2))
CAST(g AS DECIMAL(38,18))
CAST(m AS INT)
CAST(m AS TINYINT)
CAST(m AS DOUBLE)
CAST(m AS FLOAT)
CAST(m AS DECIMAL(4,1))
CAST(m AS DECIMAL(20,5))
CAST(w AS DECIMAL(20,2))
CAST(w AS DOUBLE)
CAST(w AS BIGINT)
CAST(i AS BOOLEAN)
CAST(g AS BOOLEAN)
CAST(m AS BOOLEAN)
CAST(b AS INT)
CAST(b AS DOUBLE)
CAST(b AS DECIMAL(5,2))
CAST(b AS STRING)
CAST(i AS STRING)
CAST(l AS STRING)
CAST(m AS STRING)
CAST(d AS STRING)
CAST(t AS STRING)
CAST(n AS STRING)
CAST(y AS STRING)
CAST(s AS BINARY)
CAST(d AS TIMESTAMP)
CAST(d AS TIMESTAMP_NTZ)
CAST(t AS DATE)
CAST(n AS DATE)
CAST(t AS TIMESTAMP_NTZ)
CAST(n AS TIMESTAMP)
CAST(t AS BIGINT)
CAST(t AS INT)
CAST(i AS TIMESTAMP)
CAST(l AS TIMESTAMP)
CAST(g AS TIMESTAMP)
CAST(f AS TIMESTAMP)
CAST(m AS TIMESTAMP)
CAST(t AS DOUBLE)
CAST(t AS FLOAT)
TRY_CAST(l AS INT)
TRY_CAST(l AS TINYINT)
TRY_CAST(g AS INT)
TRY_CAST(m AS DECIMAL(4,1))
TRY_CAST(m AS TINYINT)
TRY_CAST(i AS DECIMAL(5,2))
TRY_CAST(s AS INT)
TRY_CAST(s AS DATE)
CAST(s AS BOOLEAN)
year(d)
year(t)
year(n)
quarter(d)
month(d)
month(t)
day(d)
dayofmonth(n)
dayofyear(d)
dayofweek(d)
weekday(d)
weekofyear(d)
hour(t)
hour(n)
minute(t)
second(n)
last_day(d)
date_add(d, 3)
date_sub(d, i8)
add_months(d, 1)
add_months(d, -13)
datediff(d, DATE'2024-02-29')
d + 1
d - 1
d + INTERVAL 3 DAYS
d - INTERVAL '1' MONTH
t + INTERVAL 5 HOURS
t + INTERVAL 40 HOURS
t - INTERVAL 3 DAYS
n + INTERVAL 40 HOURS
n - INTERVAL 90 SECOND
n + INTERVAL 2 DAYS
trunc(d, 'MONTH')
trunc(d, 'year')
trunc(d, 'week')
trunc(d, 'quarter')
trunc(t, 'mm')
date_trunc('MONTH', t)
date_trunc('day', t)
date_trunc('week', t)
date_trunc('hour', n)
date_trunc('minute', t)
date_trunc('year', d)
date_trunc('quarter', n)
date_trunc('millisecond', n)
to_date(t)
to_date(d)
unix_timestamp(t)
unix_timestamp(d)
unix_timestamp(n)
to_unix_timestamp(t - INTERVAL 90 SECOND)
unix_date(d)
unix_seconds(t)
unix_millis(t)
unix_micros(t)
unix_seconds(n)
unix_millis(n)
unix_micros(n)
date_from_unix_date(i8)
timestamp_seconds(i8)
timestamp_seconds(i)
timestamp_seconds(g)
timestamp_seconds(m)
timestamp_seconds(CAST(g AS FLOAT))
timestamp_seconds(NULL)
timestamp_millis(l)
timestamp_micros(l)
extract(year FROM t)
extract(month FROM d)
extract(dow FROM d)
extract(hour FROM n)
floor(i)
floor(g)
floor(f)
floor(m)
ceil(g)
ceil(m)
ceiling(l)
round(i)
round(g)
round(g, 1)
round(f, 1)
round(m)
round(m, 1)
round(m, 5)
sign(i)
signum(g)
sqrt(g)
sqrt(i)
length(s)
length(y)
char_length(s)
octet_length(s)
upper(s)
lower(s)
substr(s, 1, 2)
substring(s, 2)
substring(s, -2, 1)
substring(s, 0, 2)
substring(s FROM 2 FOR 1)
left(s, 1)
left(s, 0)
left(s, -1)
concat(s, 'x')
s || s
concat('a', s, 'b')
trim(s)
ltrim(s)
rtrim(s)
reverse(s)
startswith(s, 'a')
endswith(s, 'c')
contains(s, '%')
startswith(s, s)
s LIKE 'a%'
s LIKE '%5%'
s ILIKE 'A_%'
s RLIKE '^a'
s RLIKE '^ab?c'
s RLIKE 'b|5'
s RLIKE '[a-c]+'
s RLIKE '^a.*'
s RLIKE '^(a|b|)*c$'
s RLIKE '(?:[^x]+?)+5'
s RLIKE '(|a)+$'
s RLIKE '((a*)*b?)*$'
coalesce(i, 0)
coalesce(i8, l)
coalesce(i, g)
coalesce(m, 1)
coalesce(NULL, s, 'x')
nanvl(g, i)
nanvl(g, g)
nanvl(i, l)
nanvl(m, g)
nanvl(g / 0, 1)
nvl(d, DATE'2024-01-01')
ifnull(g, 0)
nvl2(i, 1, 2)
nullif(i, 1)
nullif(s, 'a')
nullif(g, 'NaN')
if(i > 1, 'a', 'b')
if(b, i, l)
if(b, 1, NULL)
CASE WHEN i > 1 THEN 1 WHEN i < 0 THEN -1 ELSE 0 END
CASE WHEN i > 1 THEN s END
CASE s WHEN 'a' THEN 1 WHEN 'ab' THEN 2 ELSE NULL END
CASE WHEN i = 0 THEN 0 ELSE 10 / i END
greatest(i, l)
greatest(i, 3, i8)
greatest(g, f)
greatest(g, 1.5D)
greatest(d, DATE'2024-02-29')
greatest(s, 'ab')
least(i, l)
least(g, f)
least(g, 0)
least(m, 1)
isnan(g)
isnan(f)
isnull(i)
isnotnull(s)
equal_null(i, NULL)
i = i8
i < l
i <=> l
g >= f
g = g
m > i
m <= w
d < t
d = n
t > n
f < g
s < 'b'
y = y
(i > 1) = (l > 1)
i IN (i8, 5)
(i > 1) IS NULL
NOT (g > f)
replace(s, 'a', 'xy')
replace(s, '')
replace(s, 'b')
repeat(s, 3)
repeat(s, -1)
right(s, 2)
right(s, 0)
right(s, i8)
split_part(s, 'b', 2)
split_part(s, '', 1)
split_part(s, '-', -1)
split_part(s, 'a', 9)
instr(s, 'b')
instr(s, '')
instr(s, '😀')
locate('-', s)
ascii(s)
btrim(s)
i & 5
i | l
l ^ 3
i8 & i
i8 | 1
~i
~l
~i8
(i & 6) | 1
i & 6 & 3
substr(s, 2, 2)
substr(s, 3)
date_part('year', d)
datepart('MONTH', t)
date_part('dow', n)
pow(i, 2)
power(g, i8)
pow(l, 3)
i !< 3
i !> i8
overlay(s, 'xy', 2)
OVERLAY(s PLACING 'xyz' FROM 2 FOR 1)
OVERLAY(s PLACING '' FROM -2 FOR 2)
overlay(s, 'x', 0, 0)
TRIM(BOTH 'a' FROM s)
TRIM(LEADING 'ba' FROM s)
TRIM(TRAILING '' FROM s)
trim('a' FROM s)
trim(s, 'a')
btrim(s, 'ab')
ltrim('a', s)
rtrim('b', s)
lpad(s, 4, 'xy')
rpad(s, 4, 'xy')
lpad(s, 3)
rpad(s, -1, 'x')
lpad(s, 3, '')
translate(s, 'ab', 'x')
translate(s, 'aab', 'xyz')
substring_index(s, 'a', 1)
substring_index(s, 'a', -1)
substring_index(s, '-', -2)
substring_index(s, '', 1)
find_in_set('a', s)
find_in_set(s, 'a,b,,1')
hex(i)
hex(l)
hex(s)
bin(l)
bin(i8)
base64(CAST(s AS BINARY))
md5(s)
sha1(s)
sha2(s, 256)
sha2(s, 0)
crc32(s)
bit_length(s)
url_encode(s)
chr(i)
char(l)
bit_count(i)
bit_count(i8)
bit_count(l)
shiftleft(i, 3)
shiftleft(l, 65)
shiftleft(i8, 33)
shiftright(i, 1)
shiftright(l, 2)
shiftrightunsigned(i, 1)
shiftrightunsigned(l, 3)
shiftrightunsigned(i8, 1)
make_date(i, 2, 28)
make_date(2024, i8, i8)
try_add(i, i)
try_add(l, 1)
try_subtract(l, l)
try_multiply(l, l)
try_multiply(i, i)
try_add(m, m)
try_divide(i, i8)
try_divide(m, m)
try_divide(g, 0)
try_mod(l, i)
try_mod(m, 3)
degrees(g)
radians(f)
rint(g)
pi()
zeroifnull(i)
zeroifnull(m)
to_timestamp_ntz(s)
try_to_timestamp(s)
try_to_date(s)
encode(s, 'utf-8')
to_binary(s, 'UTF-8')
s RLIKE 'a'
s RLIKE 'é'
s RLIKE 'a{2}'
s RLIKE '\\d'
s RLIKE '[0-9]+'
CAST(substr(s, 1, 2) AS BOOLEAN)
CAST(concat(s, '.') AS INT)
CAST('.' || s AS BIGINT)
substring(CAST(s AS BINARY), 2)
substring(CAST(s AS BINARY), -2, 1)
left(CAST(s AS BINARY), 2)
CAST(s AS BINARY) || X'61'
concat(CAST(s AS BINARY), CAST(s AS BINARY))
EXTRACT(SECOND FROM t)
extract(seconds FROM n)
dateadd(DAY, 3, d)
dateadd(MONTH, 1, n)
timestampadd(HOUR, -5, n)
timestampadd(QUARTER, 1, n)
timestampadd(YEAR, -1, d)
timestampadd(MICROSECOND, 5, t)
date_add(WEEK, 2, t)
datediff(DAY, d, t)
datediff(MONTH, d, TIMESTAMP '2024-02-29 00:00:00')
date_diff(YEAR, n, TIMESTAMP_NTZ '2024-02-29 12:00:00')
timestampdiff(HOUR, n, TIMESTAMP_NTZ '2024-02-29 12:00:00')
timestampdiff(QUARTER, TIMESTAMP_NTZ '2024-02-29 12:00:00', n)
timestampdiff(MONTH, TIMESTAMP_NTZ '1960-05-31 23:00:00', n)
convert_timezone('UTC', '+02:00', n)
convert_timezone('Asia/Kolkata', 'America/New_York', n)
convert_timezone('Europe/Berlin', n)
from_utc_timestamp(t, 'Asia/Kolkata')
to_utc_timestamp(t, 'America/New_York')
from_utc_timestamp(n, '+02:00')
n - TIMESTAMP_NTZ '2024-01-01 05:00:00' > INTERVAL '1' DAY
t - TIMESTAMP '2024-01-01 05:00:00' <= INTERVAL '0' SECOND
d - DATE '2024-01-01' = INTERVAL 1 DAY
d - n < INTERVAL '-1 02:03:04.5' DAY TO SECOND
t - n = INTERVAL 3 HOURS
(d - DATE '2024-01-01') * i IN (INTERVAL '0' SECOND, INTERVAL -5 DAYS)
d + (DATE '2024-02-01' - DATE '2024-01-01')
d - (d - DATE '2024-01-01')
n - (n - TIMESTAMP_NTZ '2024-01-01 05:00:00')
d + INTERVAL '1-1' YEAR TO MONTH
d - INTERVAL 14 MONTHS
d + INTERVAL '1 month 1 year'
d + INTERVAL 1 WEEK
d - INTERVAL '1 week 2 days'
n + INTERVAL '1' YEAR
n - INTERVAL '13' MONTH
n + INTERVAL '1 day 3 hours'
n - INTERVAL 1 DAY 2 HOURS
n + INTERVAL '0.000001' SECOND
n - INTERVAL '-1 02:00:00' DAY TO SECOND
t + INTERVAL '-90' MINUTE
t - INTERVAL '5 milliseconds'
d + 1 + NULL
NULL + d
n + NULL
NULL + t
(d - NULL) IS NULL
i + NULL
m * NULL
-NULL IS NULL
make_dt_interval(i8, 1) > make_dt_interval(0, i16, 2, 1.5)
make_dt_interval(i, i, i, m) < INTERVAL '0' SECOND
make_ym_interval(i8, i16) >= INTERVAL '1-2' YEAR TO MONTH
make_ym_interval(i, 3) = make_ym_interval(i8) + INTERVAL '3' MONTH
- make_ym_interval(i8, 1) = INTERVAL '-2' MONTH
abs(make_dt_interval(i8)) BETWEEN INTERVAL 1 DAY AND INTERVAL '48' HOUR
make_dt_interval(i8) * i16 < INTERVAL 5 DAYS
make_dt_interval(i) + make_dt_interval(0, i) IS NULL
coalesce(make_ym_interval(i8), INTERVAL '1' MONTH) <=> INTERVAL '1' MONTH
greatest(make_dt_interval(i8), INTERVAL '1' DAY) > INTERVAL '1' HOUR
CAST(i AS INTERVAL DAY) > INTERVAL '1' DAY
CAST(i8 AS INTERVAL MONTH) * 2 <> INTERVAL '2' MONTH
CAST(l AS INTERVAL MONTH) < INTERVAL '1' YEAR
extract(DAY FROM make_dt_interval(i8, i16))
extract(HOUR FROM make_dt_interval(i8, i16, i16))
extract(MINUTE FROM make_dt_interval(0, 0, i16, 7))
extract(SECOND FROM make_dt_interval(0, 0, i16, m))
extract(YEAR FROM make_ym_interval(i8, i16))
date_part('MONTH', make_ym_interval(i8, i16))
-128Y = i8
i8 + -128Y
l = -9223372036854775808L
position('a' IN s)
ceil(m, 1)
floor(m, 1)
floor(m0, -1)
ceil(i, -2)
ceil(g, 1)
floor(f, 1)
floor(m, 5)
CAST(g AS STRING)
CAST(f AS STRING)
CAST(l AS DOUBLE)::string
CAST(w AS STRING)
reverse(y)
lpad(y, 3)
lpad(y, 3, X'6162')
rpad(y, 0, X'61')
rpad(y, 3, X'')
lpad(y, -1, X'61')
overlay(y, X'6162', 1)
lpad(y, 3, 'b')
s < X'61'
y >= s
X'61' <=> s
unhex(s)
unhex(hex(s))
unhex(hex(i))
unbase64(base64(y))
upper(d)
ltrim(i8)
length(b)
substring(d, 1, 4)
i || d
concat(y, s)
trim('1' FROM i8)
date_trunc('DAY', s)
dateadd(MONTH, 1, s)
datediff(DAY, s, n)
n - make_interval(0, 1)
d + make_interval(1)
try_to_date(concat(s, 'x'))
try_to_date(substring(s, 1, 7))
TRY_CAST(concat('2024-01-01T', s) AS DATE)
TRY_CAST(concat('2024-13-0', s) AS DATE)
TRY_CAST(concat('\t2024-01-05', s) AS TIMESTAMP_NTZ)
TRY_CAST(concat('2024-01-01 ', s) AS TIMESTAMP)
TRY_CAST(concat('-2024-1-1', s) AS DATE)
TRY_CAST(concat('T', s) AS TIMESTAMP)
i IN ('1', 2.5, 5)
i IN (2.5, '1', 5)
i8 IN ('5', 0)
m IN ('5.00', 5, 0)
d IN ('2024-01-01')
d NOT IN ('2024-01-01', '2024-01-02', NULL)
n IN ('2024-01-01', DATE '2024-07-01')
t IN ('2024-01-01 00:00:00')
g IN ('5.0', 5.5)
i IN (i8, 5.0, 2D)
m IN (i, 0.1, f)
l IN (i8, i16, '5', 5.0)
s IN ('5', i, 6)
w NOT IN (m, 5, NULL)
d IN (d, TIMESTAMP_NTZ '2024-01-01 00:00:00')
lower(concat(s, 'ß'))
t < TIMESTAMP '2024-11-03 01:30:00 America/New_York'
n = TIMESTAMP_NTZ '2024-01-01 00:00:00 Europe/Berlin'
s = -5::string
t + INTERVAL 1 DAY
t - INTERVAL '1 12:30:00' DAY TO SECOND
t + INTERVAL 1 MONTH
t - INTERVAL 13 MONTHS
t + INTERVAL 1 YEAR
d + INTERVAL 30 HOURS
timestampadd(QUARTER, -1, t)
t + make_dt_interval(i8, 5)
t + make_ym_interval(0, i8)
date_format(t, 'yyyy-MM-dd')
date_format(n, 'yyyy-MM-dd HH:mm:ss.SSSSSS')
date_format(d, "yyyy-MM-dd'T'HH")
date_format(t, 'd.M.yy H:m:s S')
date_format(d, "'day' dd ''")
date_format(s, 'yyyyMM')
date_format(t, NULL)
s = 5
s > 5
s = 5L
s < 5S
s = 5.0
s <> 5BD
s >= 5D
s = CAST(5 AS FLOAT)
s <=> 5
5 < s
s = true
s = DATE'2024-01-01'
s < TIMESTAMP'2024-01-01 00:00:01'
s >= TIMESTAMP_NTZ'2024-01-01 00:00:00'
s IN (5, 6)
s NOT IN (5, 6.5)
s IN (DATE'2024-01-01')
s BETWEEN 1 AND 5
m > '5.005'
m0 = '5'
f = '0.1'
concat_ws('-', s, i)
concat_ws(s, 'a', s, l)
concat_ws('/', CAST(NULL AS STRING), i, d)
concat_ws('', s)
regexp_extract(s, '([0-9]+)', 1)
regexp_extract(s, '([0-9])([0-9])', 2)
regexp_extract(s, '[a-z]', 0)
regexp_extract(s, '^(-?)([0-9]*)')
regexp_replace(s, '[0-9]', '#')
regexp_replace(s, '([0-9])-([0-9])', '$2_$1')
regexp_replace(s, '^ +', '')
decode(i, 1, 'one', 0, 'none', 'other')
decode(s, '5', 1, NULL, 2)
decode(s, '5', 1, NULL, 2, 3)
decode(s, '5', 'x', NULL, 'y')
decode(i, 5, s, s)
months_between(d, DATE '2024-02-29')
months_between(n, n)
months_between(d, d, false)
next_day(d, 'MO')
next_day(d, 'friday')
dayname(d)
monthname(d)
dayname(n)
from_unixtime(i)
from_unixtime(l, 'yyyy-MM')
to_date(s, 'yyyy-MM-dd')
to_timestamp(s, 'yyyy-MM-dd')
unix_timestamp(s, 'yyyy-MM-dd')
i LIKE '5%'
d LIKE '2024-02%'
f LIKE '%.5'
concat_ws('-', d, n) LIKE '%-01-%'
CAST(g + 0.5D AS STRING)
CAST(if(b, 0.99999999999999999999999999999999999999BD, 0.50000000000000000000000000000000000000BD) AS INT)
TRY_CAST(if(b, -0.99999999999999999999999999999999999999BD, 0.50000000000000000000000000000000000000BD) AS TINYINT)
CAST(if(b, 0.99999999999999999999999999999999999999BD, 0.50000000000000000000000000000000000000BD) AS BIGINT)
CAST(if(b, 0.99999999999999999999999999999999999999BD, 0.50000000000000000000000000000000000000BD) AS TIMESTAMP)
m / (1 + 2)
m / -3
m / -(3)
m / -(-3)
f + -(2.5)
m / -(2.5)
m / negative(2.5)
m / negative(3)
l + negative(3000000000)
f + negative(2.5)
l + -(3000000000)
-(2147483648) - 1
negative(2147483648) - 1
negative(9223372036854775808) - 1
-(-(2147483648))
-CAST(2147483648 AS BIGINT) - 1
-(9223372036854775808) - 1
-2147483648 + 1
-9223372036854775808 + 1
m / CAST(3 AS INT)
m % CAST(3 AS INT)
m * abs(5)
m % (3 + 0)
(1 + 2) / m
CAST(round(g, 1) AS STRING)
CAST(round(f, 1) AS STRING)
CAST(if(b, 2147483648.0F, f) AS INT)
TRY_CAST(if(b, 2147483648.0F, f) AS INT)
TRY_CAST(if(b, -2147483648.0F, f) AS INT)
TRY_CAST(if(b, 9223372036854775808.0F, f) AS BIGINT)
CAST(sign(g) AS STRING)
CAST(signum(f) AS STRING)
decimal(i)
decimal(s)
nullifzero(i8)
nullifzero(g)
space(i8)
regexp_substr(s, 'b')
regexp_substr(s, 'x*')
(i, s) < (5, 'b')
(i, s) >= (5, CAST(NULL AS STRING))
struct(i) > struct(i8::int)
(s, i8) <= ('a', 1Y)
(CAST(NULL AS INT), i) < (1, 2)
(i, d) > (CAST(NULL AS INT), DATE '2024-01-01')
i div if(b, 0.00000000000000000000000000000000000001BD, 0.50000000000000000000000000000000000000BD)
hour(concat(s, 'T00:30:00Z'))
minute(concat(s, ' 00:30:00+05:45'))
second(concat(s, ' 00:30:05 Europe/Berlin'))
EXTRACT(SECOND FROM concat(s, 'T00:30:05.25Z'))
EXTRACT(HOUR FROM concat(s, 'T23:30:05.25Z'))
hour('2024-07-01T00:30:00Z')
day(concat(s, 'T23:30:00Z'))
date_format(concat(s, 'T23:30:00Z'), 'yyyy-MM-dd HH:mm')
to_utc_timestamp(concat(s, 'T23:30:00Z'), '+02:00')
from_utc_timestamp(concat(s, ' 23:30:00'), '+02:00')
unix_timestamp(concat(s, ' 23:30:00'))
to_timestamp_ntz(concat(s, 'T23:30:00Z'))
dateadd(HOUR, 1, concat(s, 'T23:30:00Z'))
concat(s, 'T23:30:00Z') = t
concat(s, 'T23:30:00Z') = n
concat(s, 'T23:30:00Z') > d
sqrt(s)
ln(s)
pow(s, 2)
sign(s)
