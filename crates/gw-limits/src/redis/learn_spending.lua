-- Takes over the ledger's answer to the question for a budget's spending. The answer is ignored if another replica's
-- answer came first, if the next period has begun, and if a request has settled that the ledger was not asked about.
--
-- ARGV[4]  the begin of the period in question
-- ARGV[5]  the spending: the begin of a step of the period, ':' and nano-USD, one step per line. A period that does not move on
--          has one step.
-- ARGV[6]  the epoch: a name for the state that begins now, if it has none. A request that reserved before the spending was
--          forgotten reserved in this state.
-- ARGV[7]  the version of the state in the answer of `list_requests.lua`
-- ARGV[8]  those of the requests of `list_requests.lua` that the spending includes, one per line

local subject = subjects(5)[1]
local money = budget_state(subject, subject.period)
local version = redis.call('HGET', subject.state, 'version') or '0'
if not money.is_known and money.start == tonumber(ARGV[4]) and version == ARGV[7] then
  local in_ledger = {}
  for id in string.gmatch(ARGV[8], '[^\n]+') do in_ledger[id] = true end
  -- The spending that was known before `forget_spending.lua`, if it is of this period.
  local least, least_of = unpack(redis.call('HMGET', subject.state, 'least', 'least_of'))
  least = tonumber(least_of) == money.start and tonumber(least)
  local spent, steps = 0, {}
  local function add(moment, nano)
    spent = spent + nano
    if not money.step then return end
    local field = 'step:' .. whole(moment - moment % money.step)
    steps[field] = (steps[field] or 0) + nano
  end
  for begin, nano in string.gmatch(ARGV[5], '(%-?%d+):(%d+)') do add(tonumber(begin), tonumber(nano)) end
  local settled, in_both = {}, 0
  for _, member in ipairs(redis.call('ZRANGE', subject.marks, 0, -1)) do
    local nano, begun, id = string.match(member, '^spent:(%d+):(%d+):(.*)$')
    if nano then
      nano, begun = tonumber(nano), tonumber(begun)
      -- A request that began in an earlier period counts there.
      if begun >= money.start then
        if in_ledger[id] then in_both = in_both + nano else settled[#settled + 1] = { begun = begun, nano = nano } end
      end
      redis.call('ZREM', subject.marks, member)
      add_mark(subject, 'settled:' .. id)
    end
  end
  -- What the ledger does not know yet is new.
  if least then add(unix, math.max(0, least - (spent - in_both))) end
  for _, one in ipairs(settled) do add(one.begun, one.nano) end
  -- The ledger already counts these requests, and their settlements are on their way. The mark keeps them from counting
  -- twice.
  for _, member in ipairs(least and {} or redis.call('ZRANGE', subject.leases, 0, -1)) do
    local id = string.gsub(member, '^%d+:', '')
    if in_ledger[id] then
      redis.call('ZREM', subject.leases, member)
      money.open, money.reserved = money.open - 1, money.reserved - amount(member)
      add_mark(subject, 'settled:' .. id)
    end
  end
  redis.call('HDEL', subject.state, 'least', 'least_of')
  put(subject.state, 'period', money.period, 'start', whole(money.start), 'upto', whole(latest_end(money)),
    'spent', whole(spent),
    'open', money.open, 'reserved', whole(money.reserved))
  for field, nano in pairs(steps) do put(subject.state, field, whole(nano)) end
  redis.call('HSETNX', subject.state, 'epoch', generation .. '/' .. ARGV[6])
  set_ttl(subject, true)
end
return { exact(now), '0', '', '' }
