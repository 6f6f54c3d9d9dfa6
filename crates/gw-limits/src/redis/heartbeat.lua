-- Notes that a replica is alive. Answers with the number of replicas that are, and with their names. The detail is '1'
-- while budgets wait for replicas that have not reported what they hold.
--
-- KEYS[1]  the set of replicas
-- ARGV[2]  the name of this replica
-- ARGV[3]  how long it counts as alive, in microseconds
-- ARGV[4]  '1' if it has reported everything that it holds

note_replica(KEYS[1], lease)
local rebuild = KEYS[#KEYS] .. ':rebuild'
if ARGV[4] == '1' and redis.call('EXISTS', rebuild) == 1 then redis.call('HSET', rebuild, request, '1') end
local answer = { exact(now), '0', '', is_rebuilding() and '1' or '', tostring(redis.call('ZCARD', KEYS[1])) }
for _, name in ipairs(replica_names(KEYS[1])) do answer[#answer + 1] = name end
return answer
