-- Takes a report of what a replica holds, after Redis has lost its memory. A repeated report changes nothing. Renews the leases of
-- requests that take long.
--
-- ARGV[4]  the kind: 'lease', 'spent' (a request that is over, and may not be in the ledger yet), 'place' (a request
--          in flight), or 'renewed lease' and 'renewed place', which begin nothing: the request may be over meanwhile
-- ARGV[5]  nano-USD
-- ARGV[6]  the age of the request in microseconds

local kind, nano = ARGV[4], tonumber(ARGV[5])
local begun = math.floor((time - tonumber(ARGV[6])) / 1000000)
local function renew(set, member, rest)
  redis.call('ZADD', set, 'XX', exact(now + lease), member)
  redis.call('PEXPIRE', set, whole(lease / 1000 + rest))
end

for _, subject in ipairs(subjects(3)) do
  if kind == 'renewed lease' then
    renew(subject.leases, whole(nano) .. ':' .. request, DAY * 1000)
  elseif kind == 'renewed place' then
    renew(subject.in_flight, request, 1000)
  elseif kind == 'place' then
    if subject.max_in_flight then
      redis.call('ZADD', subject.in_flight, exact(now + lease), request)
      redis.call('PEXPIRE', subject.in_flight, whole(lease / 1000 + 1000))
    end
  else
    local money = budget_state(subject)
    if kind == 'lease' then
      add_lease(subject, money, nano, request)
      if subject.budget and not money.is_known then redis.call('HINCRBY', subject.state, 'version', 1) end
    elseif not money.is_known then
      add_cost(subject, money, nano, request, begun)
    elseif add_mark(subject, 'settled:' .. request) then
      -- The ledger has answered already, and was not asked about this request.
      add_cost(subject, money, nano, request, begun)
    end
    set_ttl(subject, money.is_known)
  end
end
if string.sub(kind, 1, 7) == 'renewed' then return { exact(now), '0', '', '' } end
-- Budgets wait for a replica that is still reporting.
local rebuild = KEYS[#KEYS] .. ':rebuild'
local at_last = tonumber(redis.call('HGET', rebuild, 'at_last'))
if at_last then
  redis.call('HSET', rebuild, 'at_last', exact(math.max(at_last, now + 5000000)))
  redis.call('PEXPIRE', rebuild, 600000)
end
return { exact(now), '0', '', '' }
