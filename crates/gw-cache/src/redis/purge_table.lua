-- The table of purges, KEYS[1]. The field `last` is the number of the last purge, `all` that of the last purge of
-- everything, and every other field that of the last purge of its name. Numbers are at least the microseconds since
-- 1970, so the numbers of a new table are higher than the stamps from a lost one. A new table begins with a purge of
-- everything, because the purges in the lost table are unknown.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last = redis.call('HGET', KEYS[1], 'last')
if not last then
  last = string.format('%.0f', now)
  redis.call('HSET', KEYS[1], 'last', last, 'all', last)
end
