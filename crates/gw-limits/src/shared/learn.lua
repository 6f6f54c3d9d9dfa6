-- What the ledger says was spent, taken over unless somebody else's answer was there first, or the period has turned.
--
-- ARGV[4]  the begin of the period that was asked for
-- ARGV[5]  nano-USD
-- ARGV[6]  a name for the state that begins now

local subject = subjects(3)[1]
local money = purse(subject, subject.period)
if not money.known and money.start == tonumber(ARGV[4]) then
  local spent = tonumber(ARGV[5])
  -- What was counted before it was forgotten (`forget.lua`), if that was of this period.
  local least, of = unpack(redis.call('HMGET', subject.state, 'least', 'least_of'))
  if tonumber(of) == money.start then spent = math.max(spent, tonumber(least) or 0) end
  redis.call('HDEL', subject.state, 'least', 'least_of')
  put(subject.state, 'period', money.period, 'start', whole(money.start), 'upto', whole(latest(money)),
    'spent', whole(money.spent + spent),
    'open', money.open, 'reserved', whole(money.reserved), 'epoch', ARGV[6])
  keep(subject, true)
end
return { exact(now), '0', '', '' }
