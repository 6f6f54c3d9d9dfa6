-- Counts a request of a session, unless it goes beyond a limit.
--
-- KEYS[1]   a hash, the state of the session:
--             calls   the requests that were counted
--             cost    nano-USD of the requests that are over
--             first   the moment of the first request, microseconds since 2025
--             recent  the last tool calls, each a hash of 16 digits
--             seen    their occurrences, each a hash of 16 digits
-- KEYS[2]   a sorted set, the states of the key's sessions by their last use
-- ARGV[4]   the most calls, '' if there is no such limit
-- ARGV[5]   the cost at which requests are refused, in nano-USD, or ''
-- ARGV[6]   the age at which requests are refused, in microseconds, or ''
-- ARGV[7]   the most equal tool calls, or ''
-- ARGV[8]   equal tool calls in the request's own conversation
-- ARGV[9]   nano-USD of earlier requests that Redis does not know yet
-- ARGV[10]  milliseconds after which an idle session is forgotten
-- ARGV[11]  the most tool calls that are remembered
-- ARGV[12]  the tool calls of the newest turn: the digits of an occurrence and of a call, one after the other
-- ARGV[13]  the most sessions of a key; the least recently used ones are forgotten
-- ARGV[14]  '' if the request is a dry run: nothing changes then
--
-- The fields of the answer: the limit that refuses ('calls', 'cost', 'age' or 'repeats') or '', calls, nano-USD, the age in
-- microseconds, equal tool calls.

local WIDTH = 16
local state, kept = KEYS[1], tonumber(ARGV[11]) * WIDTH
local is_counted = ARGV[14] ~= ''

local fields = redis.call('HMGET', state, 'calls', 'cost', 'first', 'recent', 'seen')
local calls, cost, first = tonumber(fields[1]) or 0, tonumber(fields[2]) or 0, tonumber(fields[3]) or now
local recent, seen = fields[4] or '', fields[5] or ''

local function append(list, digits)
  list = list .. digits
  local excess = #list - kept
  if excess > 0 then list = string.sub(list, excess + 1) end
  return list
end

local repeats, newest = tonumber(ARGV[8]), ARGV[12]
if newest ~= '' then
  local is_seen, is_asked, counts = {}, {}, {}
  for i = 1, #seen, WIDTH do is_seen[string.sub(seen, i, i + WIDTH - 1)] = true end
  for i = 1, #newest, 2 * WIDTH do
    local occurrence = string.sub(newest, i, i + WIDTH - 1)
    local call = string.sub(newest, i + WIDTH, i + 2 * WIDTH - 1)
    is_asked[call] = true
    if not is_seen[occurrence] then
      is_seen[occurrence] = true
      seen, recent = append(seen, occurrence), append(recent, call)
    end
  end
  for i = 1, #recent, WIDTH do
    local call = string.sub(recent, i, i + WIDTH - 1)
    if is_asked[call] then
      counts[call] = (counts[call] or 0) + 1
      repeats = math.max(repeats, counts[call])
    end
  end
  if is_counted then redis.call('HSET', state, 'recent', recent, 'seen', seen) end
end

calls, cost = calls + 1, cost + tonumber(ARGV[9])
local age = math.max(0, math.floor(now - first))
local function is_beyond(limit, value)
  limit = tonumber(limit)
  return limit and value >= limit
end

local refused = ''
if is_beyond(ARGV[4], calls - 1) then
  refused = 'calls'
elseif is_beyond(ARGV[5], cost) then
  refused = 'cost'
elseif is_beyond(ARGV[6], age) then
  refused = 'age'
elseif is_beyond(ARGV[7], repeats - 1) then
  refused = 'repeats'
end
if refused ~= '' then calls = calls - 1 end
local answer = { exact(now), '0', '', '', refused, exact(calls), exact(cost), exact(age), exact(repeats) }
if not is_counted then return answer end
redis.call('HSET', state, 'calls', exact(calls), 'cost', exact(cost), 'first', exact(first))
redis.call('PEXPIRE', state, ARGV[10])

local index = KEYS[2]
redis.call('ZADD', index, exact(now), state)
redis.call('PEXPIRE', index, ARGV[10])
local surplus = redis.call('ZCARD', index) - tonumber(ARGV[13])
if surplus > 0 then
  for _, oldest in ipairs(redis.call('ZRANGE', index, 0, math.min(surplus, BATCH) - 1)) do
    redis.call('DEL', oldest)
    redis.call('ZREM', index, oldest)
  end
end
return answer
