-- The first door: requests a minute, a place among those at one time, and whether any money is left.
--
-- Answers with the time, the number of the subject that refuses (0: none), why ('requests', 'flight', 'budget',
-- 'unknown', 'rebuilding'), a detail (of a budget the seconds until it begins anew, of an unknown one the begin of its period), and
-- `next` of requests and of tokens for each subject ('' when there is no such limit, or nobody looked).

local all = subjects(0)
local answer = { exact(now), '0', '', '' }
local function refuse(number, why, detail)
  answer[2], answer[3], answer[4] = tostring(number), why, detail
end

-- Nothing is counted before everything is known.
for i, subject in ipairs(all) do
  if subject.budget then
    subject.money = purse(subject, subject.period)
    if not subject.money.known then
      keep(subject, false)
      refuse(i, unknown(), whole(subject.money.start))
      return answer
    end
  end
end

for i, subject in ipairs(all) do
  local requests, tokens = unpack(redis.call('HMGET', subject.state, 'requests', 'tokens'))
  local slot = 3 + i * 2
  answer[slot], answer[slot + 1] = '', subject.tpm and exact(tonumber(tokens) or 0) or ''
  if subject.rpm then
    local before = tonumber(requests) or 0
    local after = take(before, 1, subject.rpm)
    answer[slot] = exact(after or before)
    if not after then
      refuse(i, 'requests', '')
      break
    end
    put(subject.state, 'requests', exact(after))
    keep(subject, true)
  end
  if subject.most then
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', subject.flying, '-inf', exact(now), 'LIMIT', 0, BATCH)) do
      redis.call('ZREM', subject.flying, id)
    end
    if redis.call('ZCARD', subject.flying) >= subject.most then
      refuse(i, 'flight', '')
      break
    end
    redis.call('ZADD', subject.flying, exact(now + lease), request)
    redis.call('PEXPIRE', subject.flying, whole(lease / 1000 + 1000))
    subject.placed = true
  end
  if subject.budget and subject.money.spent + subject.money.reserved >= subject.budget then
    refuse(i, 'budget', subject.money.stop and whole(subject.money.stop - unix) or '')
    break
  end
end

if answer[2] ~= '0' then
  for _, subject in ipairs(all) do
    if subject.placed then redis.call('ZREM', subject.flying, request) end
  end
end
return answer
