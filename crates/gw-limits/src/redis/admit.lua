-- Admits a request: checks the requests per minute, the requests in flight, and whether any money is left.
--
-- Answers with:
--   1  the time
--   2  the number of the subject that refuses, 0 if none does
--   3  the reason: 'requests', 'flight', 'budget', 'unknown' or 'rebuilding'
--   4  the detail: of 'budget' the seconds until the next period (nothing if there is none), a space, and the nano-USD that
--      are left; of 'unknown' the begin of the period
--   then two fields for each subject, '' if there is no such limit or the script did not come to it:
--      requests: with a burst the TAT, without a burst 'requests newest blocked_by' (WindowState in sliding_window.rs)
--      tokens: the TAT

-- The time of the bucket that must leave before another request passes.
local function blocked_by(state, window, limit)
  local remaining = window.sum
  for index = window.head, window.head + window.buckets - 1 do
    local last, requests = bucket(state, index)
    remaining = remaining - requests
    if remaining < limit then return last end
  end
  return 0
end

-- Adds a request to the window. Returns whether it passes, the field of the answer, and the moment that names its bucket.
local function take_request(state, limit)
  local window = read_window(state)
  if window.sum >= limit then
    local blocker = blocked_by(state, window, limit)
    return false, window.sum .. ' ' .. exact(window.newest) .. ' ' .. exact(blocker)
  end
  local in_bucket = 0
  if window.buckets > 0 and math.floor(window.newest / BUCKET) >= math.floor(now / BUCKET) then
    window.newest, in_bucket = math.max(window.newest, now), window.in_newest
  else
    window.newest, window.buckets = now, window.buckets + 1
  end
  window.sum = window.sum + 1
  put(state, 'r' .. (window.head + window.buckets - 1), exact(window.newest) .. ' ' .. (in_bucket + 1),
    'head', window.head, 'runs', window.buckets, 'sum', window.sum)
  return true, window.sum .. ' ' .. exact(window.newest) .. ' 0', window.newest
end

local all = subjects(0)
local answer = { exact(now), '0', '', '' }
local function refuse(number, reason, detail)
  answer[2], answer[3], answer[4] = tostring(number), reason, detail
end

-- Nothing is counted before the spending of every budget is known.
for i, subject in ipairs(all) do
  if subject.budget then
    subject.money = budget_state(subject, subject.period)
    if not subject.money.is_known then
      set_ttl(subject, false)
      refuse(i, unknown_reason(), whole(subject.money.start))
      return answer
    end
  end
end

for i, subject in ipairs(all) do
  local requests, tokens = unpack(redis.call('HMGET', subject.state, 'requests', 'tokens'))
  local slot = 3 + i * 2
  answer[slot], answer[slot + 1] = '', subject.tpm and exact(tonumber(tokens) or 0) or ''
  if subject.rpm then
    local passes
    if subject.burst then
      local tat = tonumber(requests) or 0
      local after = take(tat, 1, subject.rpm, subject.burst)
      passes = after ~= nil
      answer[slot] = exact(after or tat)
      if passes then put(subject.state, 'requests', exact(after)) end
    else
      passes, answer[slot], subject.taken_at = take_request(subject.state, subject.rpm)
    end
    if not passes then
      refuse(i, 'requests', '')
      break
    end
    set_ttl(subject, true)
  end
  if subject.max_in_flight then
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', subject.in_flight, '-inf', exact(now), 'LIMIT', 0, BATCH)) do
      redis.call('ZREM', subject.in_flight, id)
    end
    if redis.call('ZCARD', subject.in_flight) >= subject.max_in_flight then
      refuse(i, 'flight', '')
      break
    end
    redis.call('ZADD', subject.in_flight, exact(now + lease), request)
    redis.call('PEXPIRE', subject.in_flight, whole(lease / 1000 + 1000))
    subject.has_permit = true
  end
  if subject.budget and subject.money.spent + subject.money.reserved >= subject.budget then
    refuse(i, 'budget', budget_detail(subject.money, 0))
    break
  end
end

if answer[2] ~= '0' then
  for _, subject in ipairs(all) do
    -- A refusal uses up no rule.
    if subject.taken_at and string.find(subject.state, '{rule:', 1, true) then
      give_back(subject.state, subject.taken_at)
    end
    if subject.has_permit then redis.call('ZREM', subject.in_flight, request) end
  end
end
return answer
