-- Adds the open circuits of one replica. Answers with all open circuits, as pairs of a name and the microseconds that
-- remain.
--
-- KEYS[1]  a sorted set of circuits, by the moment at which each may be probed again
-- ARGV[4…] pairs: the name of a circuit, and for how many microseconds it stays open

for i = 4, #ARGV - 1, 2 do
  redis.call('ZADD', KEYS[1], 'GT', exact(now + tonumber(ARGV[i + 1])), ARGV[i])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', exact(now))
redis.call('PEXPIRE', KEYS[1], 600000)
local answer = { exact(now), '0', '', '' }
local open = redis.call('ZRANGE', KEYS[1], 0, 999, 'WITHSCORES')
for i = 1, #open, 2 do
  answer[#answer + 1] = open[i]
  answer[#answer + 1] = tostring(whole(tonumber(open[i + 1]) - now))
end
return answer
