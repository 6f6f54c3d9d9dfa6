-- The common part of all scripts. The arithmetic is that of gcra.rs and budget.rs, operation by operation. `script.rs` puts
-- the table `PERIODS` and `ROLLING_STEPS` before it.
--
-- ARGV[1]  the time in microseconds since 1970, or '' for the clock of this server. Only tests set it.
-- ARGV[2]  the id of the request
-- ARGV[3]  the duration of a lease in microseconds
-- Then the arguments of the script itself. Then six values for each subject: requests per minute, tokens per minute,
-- requests in flight, budget in nano-USD, its period, burst of requests. A value is '' if there is no such limit. The
-- last argument is the generation that the caller knows, '' if it does not matter.
--
-- KEYS, four for each subject, all with the name of the subject as their hash tag:
--   1  a hash, the state of the subject:
--        requests, tokens     the TAT of each limit (see gcra.rs), microseconds since 2025
--        head, runs, sum, r*  the sliding window of requests (`admit.lua`)
--        period, start, upto  the budget's period, its begin, and the latest end of all periods with known spending
--        spent, reserved      nano-USD
--        step:<begin>         the part of `spent` of the requests that began in this step of a rolling period
--        open                 the number of leases
--        epoch                the name of this state
--        generation           the generation in which it was written
--        before, before_from, before_until  the last known spending, while the spending is unknown: nano-USD, and the begin and
--                             the end of the time in which it was spent ('' without an end)
--        learned              when the ledger answered last, microseconds since 2025
--        version              changes when the answer of a ledger that was asked before would be wrong
--        gone                 the number of leases and marks that went while the spending was unknown
--   2  a sorted set, the leases: '<nano-USD>:<request>' by the moment of expiry
--   3  a sorted set, marks of requests without a lease, by the moment at which each is dropped:
--        '<request>'                           the lease expired, and the request has not settled
--        'settled:<request>'                   the request has settled and must not count again
--        'spent:<nano-USD>:<begin>:<request>'  the request settled while the spending was unknown
--   4  a sorted set, the requests in flight, by the moment of expiry
-- The last key holds the generation: the name of what Redis remembers. A caller that knows another one learns that
-- Redis has lost its memory. '<generation>:rebuild' then lists the replicas that have to report what they hold.
--
-- The spending of a budget is known if the hash has `start`. Numbers are doubles. Integers are exact up to 2^53.

local MINUTE = 60000000
local DAY = 86400
-- The slack for rounding, in microseconds (see gcra.rs).
local ROUNDING = 1
-- The most expired entries that one call removes for one subject.
local BATCH = 100
-- Milliseconds after which Redis drops the state of an idle subject: one without a budget, one with a budget (the ledger is
-- asked again if the subject comes back), and one whose spending is unknown.
local IDLE, IDLE_BUDGET, IDLE_UNKNOWN = 600000, 40 * DAY * 1000, DAY * 1000

-- Microseconds since 1970.
local time = tonumber(ARGV[1])
if not time then
  local parts = redis.call('TIME')
  time = parts[1] * 1000000 + parts[2]
end
-- Microseconds since 2025. Small numbers leave more digits for the fractions of a TAT.
local now = time - 1735689600000000
-- Seconds since 1970.
local unix = math.floor(time / 1000000)
local request = ARGV[2]
local lease = tonumber(ARGV[3])

-- Formats a number so that no bit is lost.
local function exact(number)
  return string.format('%.17g', number)
end

-- A call under another generation changes nothing.
local generation = ARGV[#ARGV]
if generation ~= '' and redis.call('GET', KEYS[#KEYS]) ~= generation then
  return { exact(now), '1', 'generation', '' }
end

-- The fields of a state that hold the spending of steps: a list of field, begin and nano-USD.
local function read_steps(state)
  local fields, steps = redis.call('HGETALL', state), {}
  for i = 1, #fields - 1, 2 do
    local begin = tonumber(string.match(fields[i], '^step:(%d+)$'))
    if begin then steps[#steps + 1] = { field = fields[i], begin = begin, nano = tonumber(fields[i + 1]) or 0 } end
  end
  return steps
end

-- Drops the steps that began before this moment, all without a moment. Returns the spending of the others.
local function drop_steps(state, moment)
  local kept = 0
  for _, step in ipairs(read_steps(state)) do
    if moment and step.begin >= moment then
      kept = kept + step.nano
    else
      redis.call('HDEL', state, step.field)
    end
  end
  return kept
end

-- Drops the state of a subject from an earlier generation, which a restart from an old file or a failover can bring
-- back. State of an older version of this program has no generation, and stays.
local function enter_generation(subject)
  local written_in = redis.call('HGET', subject.state, 'generation')
  if written_in == generation then return end
  if written_in then
    redis.call('DEL', subject.leases, subject.marks, subject.in_flight)
    redis.call('HDEL', subject.state, 'period', 'start', 'spent', 'reserved', 'open', 'epoch', 'before',
      'before_from', 'before_until')
    drop_steps(subject.state)
  end
  redis.call('HSET', subject.state, 'generation', generation)
  if redis.call('PTTL', subject.state) < 0 then redis.call('PEXPIRE', subject.state, IDLE_BUDGET) end
end

-- Whether replicas still have to report what they hold, after Redis lost its memory.
local function is_rebuilding()
  local key = KEYS[#KEYS] .. ':rebuild'
  local fields = redis.call('HGETALL', key)
  if #fields == 0 then return false end
  local has_missing, not_before, at_last = false, 0, 0
  for i = 1, #fields, 2 do
    if fields[i] == 'not_before' then
      not_before = tonumber(fields[i + 1])
    elseif fields[i] == 'at_last' then
      at_last = tonumber(fields[i + 1])
    elseif fields[i + 1] == '0' then
      has_missing = true
    end
  end
  if now < at_last and (has_missing or now < not_before) then return true end
  redis.call('DEL', key)
  return false
end

-- The reason with which a budget refuses while its spending is unknown.
local function unknown_reason()
  return is_rebuilding() and 'rebuilding' or 'unknown'
end

-- The subjects of this call. Their limits follow the `own` arguments of the script itself.
local function subjects(own)
  local all = {}
  for i = 1, math.floor(#KEYS / 4) do
    local key, arg = (i - 1) * 4, 3 + own + (i - 1) * 6
    all[i] = {
      state = KEYS[key + 1], leases = KEYS[key + 2], marks = KEYS[key + 3], in_flight = KEYS[key + 4],
      rpm = tonumber(ARGV[arg + 1]), tpm = tonumber(ARGV[arg + 2]), max_in_flight = tonumber(ARGV[arg + 3]),
      budget = tonumber(ARGV[arg + 4]), period = ARGV[arg + 5], burst = tonumber(ARGV[arg + 6]),
    }
    enter_generation(all[i])
  end
  return all
end

-- Rates ------------------------------------------------------------------------------------------------------------

-- The TAT, but not before now. A TAT further ahead than possible is from before the clock went back: the whole limit is
-- free then.
local function effective_tat(tat)
  if tat > now + 2 * MINUTE then return now end
  return math.max(tat, now)
end

-- GCRA: takes units. Returns the TAT afterwards, or nil if the units are not free.
local function take(tat, units, limit, burst)
  local after = effective_tat(tat) + units * MINUTE / limit
  if after <= now + burst * MINUTE / limit + ROUNDING then return after end
end

-- GCRA: takes `more` units without asking whether they are free, or gives them back if `more` is negative. Returns the
-- TAT afterwards.
local function settle_tat(tat, more, limit)
  return math.max(now, math.min(effective_tat(tat) + more * MINUTE / limit, now + 2 * MINUTE))
end

-- Periods ----------------------------------------------------------------------------------------------------------

-- The days from 1970 to the first of January of a year.
local function days_before_year(year)
  return 365 * (year - 1970) + math.floor((year - 1969) / 4) - math.floor((year - 1901) / 100)
    + math.floor((year - 1601) / 400)
end

-- The first day of the months around a day, and of those after them, in days since 1970. `count` is a divisor of twelve.
local function months_around(day, count)
  local year = 1970 + math.floor(day / 365.2425)
  while days_before_year(year) > day do year = year - 1 end
  while days_before_year(year + 1) <= day do year = year + 1 end
  local leap = days_before_year(year + 1) - days_before_year(year) - 365
  local first = days_before_year(year)
  local next_first = first
  for month, length in ipairs({ 31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 }) do
    next_first = next_first + length
    if month % count == 0 then
      if day < next_first then return first, next_first end
      first = next_first
    end
  end
end

-- The seconds of the units of rolling periods.
local UNITS = { s = 1, m = 60, h = 3600, d = DAY }

-- The begin and the end of the period around a moment in unix seconds. A period without a length begins at 0 and has no end. A rolling
-- period, such as `30d`, ends with its step, and the length of the step is the third value.
local function period_around(period, moment)
  local count, unit = string.match(period, '^(%d+)([smhd])$')
  if count then
    local length = tonumber(count) * UNITS[unit]
    local step = math.max(1, math.floor(length / ROLLING_STEPS))
    local stop = (math.floor(moment / step) + 1) * step
    return stop - math.ceil(length / step) * step - step, stop, step
  end
  local length = PERIODS[period]
  if not length then return 0, nil end
  local day = math.floor(moment / DAY)
  local first, next_first
  if length.months then
    first, next_first = months_around(day, length.months)
  else
    first = day - (day - length.first) % length.days
    next_first = first + length.days
  end
  return first * DAY, next_first * DAY
end

-- Money ------------------------------------------------------------------------------------------------------------

-- The nano-USD of a lease.
local function amount(member)
  return tonumber(string.match(member, '^(%d+):')) or 0
end

-- Sets fields of a state.
local function put(state, ...)
  redis.call('HSET', state, ...)
end

-- Formats a number as a non-negative integer that is exact in a double.
local function whole(number)
  return string.format('%.0f', math.max(0, math.min(number, 9007199254740991)))
end

-- Notes that the calling replica is alive for so many microseconds, and forgets those that are not. `key` is a sorted set of replicas,
-- by the moment at which each stops to count as alive.
local function note_replica(key, ttl)
  redis.call('ZADD', key, exact(now + ttl), request)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', exact(now))
  redis.call('PEXPIRE', key, whole(ttl / 1000 + 1000))
end

-- The names of the replicas that are alive.
local function replica_names(key)
  return redis.call('ZRANGE', key, 0, 999)
end

-- The latest end of all periods with known spending, the current one included.
local function latest_end(money)
  return math.max(money.upto or 0, money.stop or math.huge)
end

-- Moves a rolling period on from an earlier start: the spending of the steps before the new start leaves. Returns false if the
-- state has spending from after its end: the clock went back, and only the ledger knows when that was spent.
local function move_on(subject, money, start)
  local old_stop = money.stop - money.start + start
  for _, step in ipairs(read_steps(subject.state)) do
    -- The ledger may have named a step that is free.
    if step.begin >= old_stop and step.nano > 0 then return false end
  end
  money.spent = drop_steps(subject.state, money.start)
  return true
end

-- Makes the known spending of a period unknown. It stays as the spending before: the ledger may not know all of it yet.
local function forget(subject, money, period, start)
  local _, stop, step = period_around(period, start)
  put(subject.state, 'before', whole(money.spent), 'before_from', whole(start),
    'before_until', (stop and not step) and whole(stop) or '', 'spent', '0')
  money.spent, money.is_known = 0, false
  redis.call('HDEL', subject.state, 'start')
  redis.call('HINCRBY', subject.state, 'version', 1)
  drop_steps(subject.state)
end

-- Notes that leases or marks went. `list_requests.lua` may be reading them.
local function note_gone(subject, money, count)
  if count > 0 and subject.budget and not money.is_known then redis.call('HINCRBY', subject.state, 'gone', count) end
end

-- The budget of a subject in the current period: is_known, start, stop, spent, reserved, open, epoch. Expired leases
-- are released first. Without the argument `period` the period is the one in the state.
local function budget_state(subject, period)
  local got = redis.call('HMGET', subject.state, 'period', 'start', 'spent', 'reserved', 'open', 'epoch', 'upto')
  local money = {
    period = period or got[1] or 'total', spent = tonumber(got[3]) or 0, reserved = tonumber(got[4]) or 0,
    open = tonumber(got[5]) or 0, epoch = got[6] or '',
  }
  local start = tonumber(got[2])
  money.start, money.stop, money.step = period_around(money.period, unix)
  money.upto = tonumber(got[7])
  if start and start == money.start and got[1] == money.period then
    money.is_known = true
  elseif start then
    -- Nothing is spent yet in a period that begins after all others. In an earlier period, or in one of another kind, only
    -- the ledger knows the spending.
    if got[1] == money.period and money.step and money.start > start then
      money.is_known = move_on(subject, money, start)
    elseif got[1] == money.period and money.upto and money.start >= money.upto then
      money.is_known, money.spent = true, 0
    end
    if money.is_known then
      put(subject.state, 'start', whole(money.start), 'upto', whole(latest_end(money)), 'spent', whole(money.spent))
    else
      forget(subject, money, got[1] or money.period, start)
    end
  end
  -- Redis may have evicted the hash or the set alone. The set then decides what is reserved.
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
    redis.call('ZADD', subject.marks, exact(now + DAY * 1000000), id)
  end
  if #expired > 0 then
    redis.call('PEXPIRE', subject.marks, DAY * 1000)
    put(subject.state, 'open', money.open, 'reserved', whole(money.reserved))
  end
  local old = redis.call('ZRANGEBYSCORE', subject.marks, '-inf', exact(now), 'LIMIT', 0, BATCH)
  for _, id in ipairs(old) do redis.call('ZREM', subject.marks, id) end
  note_gone(subject, money, #expired + #old)
  return money
end

-- The detail of the refusal 'budget': the seconds until the next period, nothing if there is none, a space, and the
-- nano-USD that are left.
local function budget_detail(money, left)
  return (money.stop and whole(money.stop - unix) or '') .. ' ' .. whole(left)
end

-- Adds a lease for a request. Changes nothing if the lease exists.
local function add_lease(subject, money, nano, id)
  local member = whole(nano) .. ':' .. id
  if redis.call('ZADD', subject.leases, exact(now + lease), member) == 1 then
    put(subject.state, 'open', money.open + 1, 'reserved', whole(money.reserved + nano))
  end
  redis.call('PEXPIRE', subject.leases, whole(lease / 1000 + DAY * 1000))
end

-- Adds a mark of a request without a lease. Returns whether the mark is new.
local function add_mark(subject, member)
  local is_new = redis.call('ZADD', subject.marks, exact(now + DAY * 1000000), member) == 1
  redis.call('PEXPIRE', subject.marks, DAY * 1000)
  return is_new
end

-- Whether the cost of a request that began at this moment counts in the period. After a clock went back, a request may
-- have begun in a later period, and counts there.
local function is_of_period(money, begun)
  return begun >= money.start and (money.step ~= nil or money.stop == nil or begun < money.stop)
end

-- Counts the cost of a request that began at this moment (unix seconds). While the spending is unknown, the cost
-- becomes a mark: the ledger has to say whether it includes the cost already. `is_listed`: the ledger is asked about the
-- request anyway, because it had a lease, or the mark of one.
local function add_cost(subject, money, nano, id, begun, is_listed)
  if money.is_known then
    if not is_of_period(money, begun) then return end
    put(subject.state, 'spent', whole(money.spent + nano))
    if money.step then
      local field = 'step:' .. whole(begun - begun % money.step)
      put(subject.state, field, whole((tonumber(redis.call('HGET', subject.state, field)) or 0) + nano))
    end
  elseif subject.budget then
    add_mark(subject, 'spent:' .. whole(nano) .. ':' .. whole(begun) .. ':' .. id)
    if not is_listed then redis.call('HINCRBY', subject.state, 'version', 1) end
  end
end

-- Sets when Redis drops the state if the subject stays idle.
local function set_ttl(subject, is_known)
  local budget = subject.budget and (is_known and IDLE_BUDGET or IDLE_UNKNOWN)
  redis.call('PEXPIRE', subject.state, budget or IDLE)
end
