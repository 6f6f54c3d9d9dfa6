-- Makes the spending unknown, because Redis may not have counted everything: a budget was added to a subject without one,
-- or a process has begun, and this program had no budget for the subject before. The leases stay.
--
-- ARGV[4]  for how long the process has counted the subject, in microseconds. If the ledger has answered since, nothing
--          is to do. '' if a budget was added.

local subject = subjects(1)[1]
local money = budget_state(subject, subject.period)
local age = tonumber(ARGV[4])
local learned = tonumber(redis.call('HGET', subject.state, 'learned'))
local is_up_to_date = age and learned and learned >= now - age
if money.is_known and not is_up_to_date then forget(subject, money, money.period, money.start) end
return { exact(now), '0', '', '' }
