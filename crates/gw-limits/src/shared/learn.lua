-- What the ledger says was spent, taken over unless somebody else's answer was there first, the period has turned, or
-- something was settled that the ledger was not asked about.
--
-- ARGV[4]  the begin of the period that was asked for
-- ARGV[5]  nano-USD
-- ARGV[6]  a name for the state that begins now
-- ARGV[7]  the version of the state that `gather` saw
-- ARGV[8]  which of the requests that `gather` named the ledger knows of, each with a line of its own

local subject = subjects(5)[1]
local money = purse(subject, subject.period)
local version = redis.call('HGET', subject.state, 'version') or '0'
if not money.known and money.start == tonumber(ARGV[4]) and version == ARGV[7] then
  local told = {}
  for id in string.gmatch(ARGV[8], '[^\n]+') do told[id] = true end
  -- What was counted before it was forgotten (`forget.lua`), if that was of this period.
  local least, of = unpack(redis.call('HMGET', subject.state, 'least', 'least_of'))
  least = tonumber(of) == money.start and tonumber(least)
  local settled, in_ledger = 0, 0
  for _, member in ipairs(redis.call('ZRANGE', subject.late, 0, -1)) do
    local nano, begun, id = string.match(member, '^spent:(%d+):(%d+):(.*)$')
    if nano then
      -- One of an earlier period counts there.
      nano = tonumber(begun) >= money.start and tonumber(nano) or 0
      settled = settled + nano
      if told[id] then in_ledger = in_ledger + nano end
      redis.call('ZREM', subject.late, member)
      mark(subject, 'settled:' .. id)
    end
  end
  -- The settlement of these is on its way.
  for _, member in ipairs(least and {} or redis.call('ZRANGE', subject.leases, 0, -1)) do
    local id = string.gsub(member, '^%d+:', '')
    if told[id] then
      redis.call('ZREM', subject.leases, member)
      money.open, money.reserved = money.open - 1, money.reserved - amount(member)
      mark(subject, 'settled:' .. id)
    end
  end
  local spent = math.max(tonumber(ARGV[5]) - in_ledger, least or 0) + settled
  redis.call('HDEL', subject.state, 'least', 'least_of')
  put(subject.state, 'period', money.period, 'start', whole(money.start), 'upto', whole(latest(money)),
    'spent', whole(spent),
    'open', money.open, 'reserved', whole(money.reserved), 'epoch', generation .. '/' .. ARGV[6])
  keep(subject, true)
end
return { exact(now), '0', '', '' }
