-- The table of purges, KEYS[1]: `last` is the number of the last purge, `all` that of the last one of everything, every other
-- field that of its name. Numbers are microseconds since 1970 or more, so that a table that was lost and begins anew is ahead
-- of every stamp that was taken from the old one; and it begins with a purge of everything, because nobody knows what was in
-- the old one.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last = redis.call('HGET', KEYS[1], 'last')
if not last then
  last = string.format('%.0f', now)
  redis.call('HSET', KEYS[1], 'last', last, 'all', last)
end
