-- The sliding window of sliding_window.rs, in the hash of the state. The buckets are the fields r<head>, r<head + 1>,
-- …, each 'last requests'. `runs` is the number of buckets, `sum` the sum of their requests.
local BUCKET = 100000
local MAX_AHEAD = 1000000

local function bucket(state, index)
  local last, requests = string.match(redis.call('HGET', state, 'r' .. index) or '', '^(%S+) (%d+)$')
  return tonumber(last) or 0, tonumber(requests) or 0
end

-- Reads the window. Removes buckets older than a minute, and all buckets after the clock went back.
local function read_window(state)
  local head, buckets, sum = unpack(redis.call('HMGET', state, 'head', 'runs', 'sum'))
  local window = {
    head = tonumber(head) or 0, buckets = tonumber(buckets) or 0, sum = tonumber(sum) or 0,
    newest = 0, in_newest = 0,
  }
  if window.buckets > 0 then
    window.newest, window.in_newest = bucket(state, window.head + window.buckets - 1)
  end
  local went_back, expired = window.newest > now + MAX_AHEAD, {}
  while window.buckets > 0 do
    local last, requests = bucket(state, window.head)
    if not went_back and last + MINUTE > now + ROUNDING then break end
    expired[#expired + 1] = 'r' .. window.head
    window.head, window.buckets, window.sum = window.head + 1, window.buckets - 1, window.sum - requests
  end
  if #expired > 0 then
    redis.call('HDEL', state, unpack(expired))
    put(state, 'head', window.head, 'runs', window.buckets, 'sum', window.sum)
  end
  if window.buckets == 0 then window.newest = 0 end
  return window
end

-- Takes back a request that was added to the bucket of this moment. Does nothing if that bucket has left the window.
local function give_back(state, moment)
  local window, number = read_window(state), math.floor(moment / BUCKET)
  local low, high = window.head, window.head + window.buckets
  -- The numbers of buckets rise, so a search by halves asks for few of them.
  while low < high do
    local middle = math.floor((low + high) / 2)
    local last, requests = bucket(state, middle)
    local found = math.floor(last / BUCKET)
    if found == number then
      if requests > 0 then
        put(state, 'r' .. middle, exact(last) .. ' ' .. (requests - 1), 'sum', window.sum - 1)
      end
      return
    end
    if found < number then low = middle + 1 else high = middle end
  end
end

