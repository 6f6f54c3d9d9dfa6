-- The first door: requests a minute, a place among those at one time, and whether any money is left.
--
-- Answers with the time, the number of the subject that refuses (0: none), why ('requests', 'flight', 'budget',
-- 'unknown', 'rebuilding'), a detail (of a budget the seconds until it begins anew, of an unknown one the begin of its
-- period), and requests and `next` of tokens for each subject ('' when there is no such limit, or nobody looked). Requests with a burst
-- are a `next`, too; others are those of the last minute, when the newest came, and when the one came that must leave
-- before another one passes (0: one passes).

-- The last minute of requests, as minute.rs has it: runs in the state's hash, from r<head> on, each 'last requests'; and
-- head, the number of runs, and the sum of their requests.
local GRANULE, AHEAD = 100000, 1000000

local function run(state, index)
  local last, requests = string.match(redis.call('HGET', state, 'r' .. index) or '', '^(%S+) (%d+)$')
  return tonumber(last) or 0, tonumber(requests) or 0
end

-- Forgets what is older than a minute, or of a clock that went back.
local function leave(state)
  local head, runs, sum = unpack(redis.call('HMGET', state, 'head', 'runs', 'sum'))
  local past = { head = tonumber(head) or 0, runs = tonumber(runs) or 0, sum = tonumber(sum) or 0, newest = 0 }
  if past.runs > 0 then past.newest, past.joined = run(state, past.head + past.runs - 1) end
  local back, gone = past.newest > now + AHEAD, {}
  while past.runs > 0 do
    local last, requests = run(state, past.head)
    if not back and last + MINUTE > now + SLACK then break end
    gone[#gone + 1] = 'r' .. past.head
    past.head, past.runs, past.sum = past.head + 1, past.runs - 1, past.sum - requests
  end
  if #gone > 0 then
    redis.call('HDEL', state, unpack(gone))
    put(state, 'head', past.head, 'runs', past.runs, 'sum', past.sum)
  end
  if past.runs == 0 then past.newest = 0 end
  return past
end

-- When the run came that must leave before another request passes.
local function before(state, past, limit)
  local left = past.sum
  for index = past.head, past.head + past.runs - 1 do
    local last, requests = run(state, index)
    left = left - requests
    if left < limit then return last end
  end
  return 0
end

-- Takes one of so many in any minute: whether there is one, and what is answered.
local function take_one(state, limit)
  local past = leave(state)
  if past.sum >= limit then
    return false, past.sum .. ' ' .. exact(past.newest) .. ' ' .. exact(before(state, past, limit))
  end
  local joined = 0
  if past.runs > 0 and math.floor(past.newest / GRANULE) >= math.floor(now / GRANULE) then
    past.newest, joined = math.max(past.newest, now), past.joined
  else
    past.newest, past.runs = now, past.runs + 1
  end
  past.sum = past.sum + 1
  put(state, 'r' .. (past.head + past.runs - 1), exact(past.newest) .. ' ' .. (joined + 1),
    'head', past.head, 'runs', past.runs, 'sum', past.sum)
  return true, past.sum .. ' ' .. exact(past.newest) .. ' 0'
end

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
    local free
    if subject.burst then
      local next = tonumber(requests) or 0
      free = take(next, 1, subject.rpm, subject.burst)
      answer[slot] = exact(free or next)
      if free then put(subject.state, 'requests', exact(free)) end
    else
      free, answer[slot] = take_one(subject.state, subject.rpm)
    end
    if not free then
      refuse(i, 'requests', '')
      break
    end
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
