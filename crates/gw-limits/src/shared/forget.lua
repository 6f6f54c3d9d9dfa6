-- A budget is given to who had none: not all was counted meanwhile, so the ledger is to be asked again. What is set aside
-- stays. What was counted so far stays as the least that was spent: replicas' ledgers may not have heard of all of it,
-- and several replicas say this of one change.

local subject = subjects(0)[1]
local money = purse(subject, subject.period)
if money.known then
  redis.call('HDEL', subject.state, 'start')
  put(subject.state, 'spent', '0', 'least', whole(money.spent), 'least_of', whole(money.start))
end
return { exact(now), '0', '', '' }
