-- The common part of all scripts; the arithmetic is that of rate.rs and purse.rs, operation by operation.
--
-- ARGV[1]  the time in microseconds since 1970, or '' for that of this server: replicas' clocks do not matter
-- ARGV[2]  the id of the request
-- ARGV[3]  how long a lease lasts, in microseconds
-- Then what the script says, then six values for each subject: requests a minute, tokens a minute, requests at one
-- time, budget in nano-USD, its period, how many requests may come at once; '' where there is no such limit.
--
-- The last one is the generation that the caller knows, '' when it does not matter.
--
-- KEYS, four for each subject, all with its name as their hash tag:
--   1  a hash: requests, tokens (`next` of each, microseconds since 2025), period, start, upto (the
--      latest end of all periods that it was known of), spent, reserved, open, epoch, generation;
--      least and least_of (a begin of a period) between `forget` and `learn`; version, which changes while the ledger is
--      asked; the requests of the last minute (`enter`)
--   2  a sorted set: what is set aside, '<nano-USD>:<request>', by the moment at which the lease expires
--   3  a sorted set, by the moment at which each is forgotten: '<request>' whose lease expired before it was settled;
--      'settled:<request>' that has no lease and counts no more; 'spent:<nano-USD>:<begin>:<request>' that was settled
--      while the budget is not known, so that the ledger may know it or not
--   4  a sorted set: requests at one time, by the moment at which the lease of the place expires
-- The last key is the generation of what Redis remembers. It goes with its memory, so that who meets another one, or
-- none, knows of the loss; '<generation>:rebuild' says what is waited for then.
--
-- A budget is known when the hash has `start`. Numbers are doubles: whole ones are exact up to 2^53.

local MINUTE = 60000000
local DAY = 86400
-- Rounding, see rate.rs.
local SLACK = 1
-- How much of what has expired one call cleans up for one subject.
local BATCH = 100
-- Milliseconds after which the state of an idle subject is dropped: without a budget, with one (longer than the longest
-- period that ends), and with a budget that nobody has asked the ledger about.
local IDLE, IDLE_BUDGET, IDLE_UNKNOWN = 600000, 40 * DAY * 1000, DAY * 1000

-- Microseconds since 1970.
local time = tonumber(ARGV[1])
if not time then
  local parts = redis.call('TIME')
  time = parts[1] * 1000000 + parts[2]
end
-- Microseconds since 2025: smaller numbers leave more digits for the fractions of `next`.
local now = time - 1735689600000000
-- Seconds since 1970.
local unix = math.floor(time / 1000000)
local request = ARGV[2]
local lease = tonumber(ARGV[3])

-- A number as text, to the last bit.
local function exact(number)
  return string.format('%.17g', number)
end

local generation = ARGV[#ARGV]
if generation ~= '' and redis.call('GET', KEYS[#KEYS]) ~= generation then
  return { exact(now), '1', 'generation', '' }
end

-- What is remembered of a subject from before Redis lost its memory (a restart from an old file, a failover) is dropped.
-- What an older version of this program wrote has no generation, and stays.
local function renew(subject)
  local of = redis.call('HGET', subject.state, 'generation')
  if of == generation then return end
  if of then
    redis.call('DEL', subject.leases, subject.late, subject.flying)
    redis.call('HDEL', subject.state, 'period', 'start', 'spent', 'reserved', 'open', 'epoch', 'least', 'least_of')
  end
  redis.call('HSET', subject.state, 'generation', generation)
  if redis.call('PTTL', subject.state) < 0 then redis.call('PEXPIRE', subject.state, IDLE_BUDGET) end
end

-- Whether replicas have yet to tell what they hold, after a loss.
local function rebuilding()
  local key = KEYS[#KEYS] .. ':rebuild'
  local fields = redis.call('HGETALL', key)
  if #fields == 0 then return false end
  local waits, not_before, at_last = false, 0, 0
  for i = 1, #fields, 2 do
    if fields[i] == 'not_before' then
      not_before = tonumber(fields[i + 1])
    elseif fields[i] == 'at_last' then
      at_last = tonumber(fields[i + 1])
    elseif fields[i + 1] == '0' then
      waits = true
    end
  end
  if now < at_last and (waits or now < not_before) then return true end
  redis.call('DEL', key)
  return false
end

-- Why a budget that is not known refuses.
local function unknown()
  return rebuilding() and 'rebuilding' or 'unknown'
end

-- The subjects of this call; their limits begin after the `own` arguments of the script itself.
local function subjects(own)
  local all = {}
  for i = 1, math.floor(#KEYS / 4) do
    local key, arg = (i - 1) * 4, 3 + own + (i - 1) * 6
    all[i] = {
      state = KEYS[key + 1], leases = KEYS[key + 2], late = KEYS[key + 3], flying = KEYS[key + 4],
      rpm = tonumber(ARGV[arg + 1]), tpm = tonumber(ARGV[arg + 2]), most = tonumber(ARGV[arg + 3]),
      budget = tonumber(ARGV[arg + 4]), period = ARGV[arg + 5], burst = tonumber(ARGV[arg + 6]),
    }
    renew(all[i])
  end
  return all
end

-- Rates ------------------------------------------------------------------------------------------------------------

-- `next`, not before now. Further ahead than it can get, it is of a clock that went back since: then all is free.
local function begin(next)
  if next > now + 2 * MINUTE then return now end
  return math.max(next, now)
end

-- Takes so many of a limit of which so many may come at once: `next` afterwards, or nil when they are not free.
local function take(next, units, limit, burst)
  local after = begin(next) + units * MINUTE / limit
  if after <= now + burst * MINUTE / limit + SLACK then return after end
end

-- Takes so many more, or gives them back.
local function adjust(next, more, limit)
  return math.max(now, math.min(begin(next) + more * MINUTE / limit, now + 2 * MINUTE))
end

-- Periods ----------------------------------------------------------------------------------------------------------

-- Days from 1970 to the first of January of a year.
local function before_year(year)
  return 365 * (year - 1970) + math.floor((year - 1969) / 4) - math.floor((year - 1901) / 100)
    + math.floor((year - 1601) / 400)
end

-- The first day of the month that a day is in, and of the next; days since 1970.
local function month_around(day)
  local year = 1970 + math.floor(day / 365.2425)
  while before_year(year) > day do year = year - 1 end
  while before_year(year + 1) <= day do year = year + 1 end
  local leap = before_year(year + 1) - before_year(year) - 365
  local first = before_year(year)
  for _, length in ipairs({ 31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 }) do
    if day < first + length then return first, first + length end
    first = first + length
  end
end

-- The begin and the end of the current period, unix seconds; `total` begins at 0 and has no end.
local function window(period)
  local day = math.floor(unix / DAY)
  if period == 'day' then return day * DAY, (day + 1) * DAY end
  if period == 'week' then
    -- The first of January 1970 was a Thursday.
    local monday = day - (day + 3) % 7
    return monday * DAY, (monday + 7) * DAY
  end
  if period == 'month' then
    local first, next = month_around(day)
    return first * DAY, next * DAY
  end
  return 0, nil
end

-- Money ------------------------------------------------------------------------------------------------------------

-- Nano-USD of a member of the set of what is set aside.
local function amount(member)
  return tonumber(string.match(member, '^(%d+):')) or 0
end

local function put(state, ...)
  redis.call('HSET', state, ...)
end

local function whole(number)
  return string.format('%.0f', math.max(0, math.min(number, 9007199254740991)))
end

-- The latest end of all periods that money was known of, this one among them.
local function latest(money)
  return math.max(money.upto or 0, money.stop or math.huge)
end

-- The money of a subject in the current period: known, start, stop, spent, reserved, open, epoch. What has expired of
-- its leases is released first. Without a period it is that which the state is of.
local function purse(subject, period)
  local got = redis.call('HMGET', subject.state, 'period', 'start', 'spent', 'reserved', 'open', 'epoch', 'upto')
  local money = {
    period = period or got[1] or 'total', spent = tonumber(got[3]) or 0, reserved = tonumber(got[4]) or 0,
    open = tonumber(got[5]) or 0, epoch = got[6] or '',
  }
  local start = tonumber(got[2])
  money.start, money.stop = window(money.period)
  money.upto = tonumber(got[7])
  local same = got[1] == money.period and start == money.start
  money.known = same or (start ~= nil and got[1] == money.period and money.upto ~= nil and money.start >= money.upto)
  if start and not same then
    -- In a period that it was never in nothing is spent yet. Of another kind of period, or of one that the clock went
    -- back into, or forth again, only the ledger knows.
    money.spent = 0
    redis.call('HDEL', subject.state, 'start')
    put(subject.state, 'spent', '0')
    if money.known then put(subject.state, 'start', whole(money.start), 'upto', whole(latest(money))) end
  end
  -- Of sets that were evicted alone, or of a hash that was: what is set aside is what the set says.
  if money.open ~= redis.call('ZCARD', subject.leases) then
    money.open, money.reserved = 0, 0
    for _, member in ipairs(redis.call('ZRANGE', subject.leases, 0, -1)) do
      money.open, money.reserved = money.open + 1, money.reserved + amount(member)
    end
    put(subject.state, 'open', money.open, 'reserved', whole(money.reserved))
  end
  local expired = redis.call('ZRANGEBYSCORE', subject.leases, '-inf', exact(now), 'LIMIT', 0, BATCH)
  for _, member in ipairs(expired) do
    redis.call('ZREM', subject.leases, member)
    money.open, money.reserved = money.open - 1, money.reserved - amount(member)
    local id = string.gsub(member, '^%d+:', '')
    redis.call('ZADD', subject.late, exact(now + DAY * 1000000), id)
  end
  if #expired > 0 then
    redis.call('PEXPIRE', subject.late, DAY * 1000)
    put(subject.state, 'open', money.open, 'reserved', whole(money.reserved))
  end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', subject.late, '-inf', exact(now), 'LIMIT', 0, BATCH)) do
    redis.call('ZREM', subject.late, id)
  end
  return money
end

-- Sets nano-USD aside for a request, once.
local function set_aside(subject, money, nano, id)
  local member = whole(nano) .. ':' .. id
  if redis.call('ZADD', subject.leases, exact(now + lease), member) == 1 then
    put(subject.state, 'open', money.open + 1, 'reserved', whole(money.reserved + nano))
  end
  redis.call('PEXPIRE', subject.leases, whole(lease / 1000 + DAY * 1000))
end

-- Notes something about a request that is not set aside any more; whether that is new.
local function mark(subject, member)
  local is_new = redis.call('ZADD', subject.late, exact(now + DAY * 1000000), member) == 1
  redis.call('PEXPIRE', subject.late, DAY * 1000)
  return is_new
end

-- Counts what a request spent that began at this moment (unix seconds). Of a budget that is not known the ledger has to say
-- whether it knows of it already.
local function spend(subject, money, nano, id, begun)
  if money.known then
    if begun >= money.start then put(subject.state, 'spent', whole(money.spent + nano)) end
  elseif subject.budget then
    mark(subject, 'spent:' .. whole(nano) .. ':' .. whole(begun) .. ':' .. id)
    redis.call('HINCRBY', subject.state, 'version', 1)
  end
end

-- Lets an idle subject's state go in the end.
local function keep(subject, known)
  local budget = subject.budget and (known and IDLE_BUDGET or IDLE_UNKNOWN)
  redis.call('PEXPIRE', subject.state, budget or IDLE)
end
