-- What a replica holds, told again after Redis has lost its memory; told twice it changes nothing.
--
-- ARGV[4]  'lease': set aside; 'spent': over, and perhaps not in the ledger yet; 'place': one of those at one time
-- ARGV[5]  nano-USD
-- ARGV[6]  how long ago the request began, in microseconds

local kind, nano = ARGV[4], tonumber(ARGV[5])
local begun = math.floor((time - tonumber(ARGV[6])) / 1000000)
for _, subject in ipairs(subjects(3)) do
  if kind == 'place' then
    if subject.most then
      redis.call('ZADD', subject.flying, exact(now + lease), request)
      redis.call('PEXPIRE', subject.flying, whole(lease / 1000 + 1000))
    end
  else
    local money = purse(subject)
    if kind == 'lease' then
      set_aside(subject, money, nano, request)
    elseif not money.known then
      spend(subject, money, nano, request, begun)
    elseif mark(subject, 'settled:' .. request) then
      -- Too late to ask the ledger about it.
      spend(subject, money, nano, request, begun)
    end
    keep(subject, money.known)
  end
end
-- Who tells is waited for.
local rebuild = KEYS[#KEYS] .. ':rebuild'
local at_last = tonumber(redis.call('HGET', rebuild, 'at_last'))
if at_last then
  redis.call('HSET', rebuild, 'at_last', exact(math.max(at_last, now + 5000000)))
  redis.call('PEXPIRE', rebuild, 600000)
end
return { exact(now), '0', '', '' }
