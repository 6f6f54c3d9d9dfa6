-- Takes over the ledger's answer to the question for a budget's spending. The answer is ignored if another replica's
-- answer came first, if the next period has begun, and if a request has settled that the ledger was not asked about.
--
-- ARGV[4]  the begin of the period in question
-- ARGV[5]  the spending: the begin of a step of the period, ':' and nano-USD, one step per line. A period that does not move on
--          has one step.
-- ARGV[6]  the epoch: a name for the state that begins now, if it has none. A request that reserved before the spending was
--          forgotten reserved in this state.
-- ARGV[7]  the version of the state in the answer of `list_requests.lua`
-- ARGV[8]  the nano-USD that the ledger knows of the time before
-- ARGV[9]  those of the requests of `list_requests.lua` that the spending includes, one per line: nano-USD, ':', the begin
--          (unix seconds), ':', and the id. The first two are 0 if no spending was known before.

local subject = subjects(6)[1]
local money = budget_state(subject, subject.period)
local version = redis.call('HGET', subject.state, 'version') or '0'
if not money.is_known and money.start == tonumber(ARGV[4]) and version == ARGV[7] then
  local in_ledger = {}
  for nano, begun, id in string.gmatch(ARGV[9], '(%d+):(%d+):([^\n]+)') do
    in_ledger[id] = { nano = tonumber(nano), begun = tonumber(begun) }
  end
  local got = redis.call('HMGET', subject.state, 'before', 'before_from', 'before_until')
  local before, before_from = tonumber(got[1]), tonumber(got[2]) or 0
  local before_until = tonumber(got[3]) or math.huge
  local spent, steps = 0, {}
  local function add(moment, nano)
    spent = spent + nano
    if not money.step then return end
    local field = 'step:' .. whole(moment - moment % money.step)
    steps[field] = (steps[field] or 0) + nano
  end
  for begin, nano in string.gmatch(ARGV[5], '(%-?%d+):(%d+)') do add(tonumber(begin), tonumber(nano)) end
  local settled, before_in_ledger = {}, tonumber(ARGV[8]) or 0
  -- Takes a request out of what the ledger knows of the time before, because Redis had not counted it.
  local function take_out(begun, nano)
    if begun >= before_from and begun < before_until then before_in_ledger = before_in_ledger - nano end
  end
  for _, member in ipairs(redis.call('ZRANGE', subject.marks, 0, -1)) do
    local nano, begun, id = string.match(member, '^spent:(%d+):(%d+):(.*)$')
    if nano then
      nano, begun = tonumber(nano), tonumber(begun)
      if is_of_period(money, begun) and not in_ledger[id] then settled[#settled + 1] = { begun = begun, nano = nano } end
      if in_ledger[id] then take_out(begun, nano) end
      redis.call('ZREM', subject.marks, member)
      add_mark(subject, 'settled:' .. id)
    elseif in_ledger[member] then
      -- The ledger counts a request whose lease has expired. Its settlement is on its way.
      take_out(in_ledger[member].begun, in_ledger[member].nano)
      redis.call('ZREM', subject.marks, member)
      add_mark(subject, 'settled:' .. member)
    end
  end
  -- The ledger already counts these requests, and their settlements are on their way. The mark keeps them from counting
  -- twice.
  for _, member in ipairs(redis.call('ZRANGE', subject.leases, 0, -1)) do
    local id = string.gsub(member, '^%d+:', '')
    if in_ledger[id] then
      take_out(in_ledger[id].begun, in_ledger[id].nano)
      redis.call('ZREM', subject.leases, member)
      money.open, money.reserved = money.open - 1, money.reserved - amount(member)
      add_mark(subject, 'settled:' .. id)
    end
  end
  -- Redis counted these costs before, and the ledger does not know them yet. They are new, and count in this period if the
  -- two times have a part in common.
  local stop = not money.step and money.stop or math.huge
  if before and before_from < stop and before_until > money.start then
    add(unix, math.max(0, before - before_in_ledger))
  end
  for _, one in ipairs(settled) do add(one.begun, one.nano) end
  redis.call('HDEL', subject.state, 'before', 'before_from', 'before_until', 'gone')
  put(subject.state, 'period', money.period, 'start', whole(money.start), 'upto', whole(latest_end(money)),
    'spent', whole(spent), 'learned', exact(now),
    'open', money.open, 'reserved', whole(money.reserved))
  for field, nano in pairs(steps) do put(subject.state, field, whole(nano)) end
  redis.call('HSETNX', subject.state, 'epoch', generation .. '/' .. ARGV[6])
  set_ttl(subject, true)
end
return { exact(now), '0', '', '' }
