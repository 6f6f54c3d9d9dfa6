-- Adds a purge. ARGV[1] is the name, ARGV[2] the most names that are told apart.
local name = ARGV[1]
local number = string.format('%.0f', math.max(tonumber(last) + 1, now))
if redis.call('HEXISTS', KEYS[1], name) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[2]) then
  name = 'all'
end
if name == 'all' then
  redis.call('DEL', KEYS[1])
end
redis.call('HSET', KEYS[1], 'last', number, name, number)
if name ~= 'all' then
  redis.call('HSETNX', KEYS[1], 'all', last)
end
return redis.call('HGETALL', KEYS[1])
