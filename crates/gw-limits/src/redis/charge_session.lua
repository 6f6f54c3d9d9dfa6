-- Adds the cost of requests that are over to their session. A session that was forgotten stays so.
--
-- KEYS[1]  the state of the session (enter_session.lua)
-- ARGV[4]  nano-USD

if redis.call('EXISTS', KEYS[1]) == 1 then
  local cost = tonumber(redis.call('HGET', KEYS[1], 'cost')) or 0
  redis.call('HSET', KEYS[1], 'cost', exact(cost + tonumber(ARGV[4])))
end
return { exact(now), '0', '', '' }
