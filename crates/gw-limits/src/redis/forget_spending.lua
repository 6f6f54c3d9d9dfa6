-- Makes the spending unknown, because a budget was added to a subject without one, and not all costs were counted
-- before. The leases stay. The spending so far stays as a lower bound: the ledger may not know all of it yet, and
-- several replicas report one change.

local subject = subjects(0)[1]
local money = budget_state(subject, subject.period)
if money.is_known then
  put(subject.state, 'least', whole(money.spent), 'least_of', whole(money.start))
  forget(subject, money)
end
return { exact(now), '0', '', '' }
