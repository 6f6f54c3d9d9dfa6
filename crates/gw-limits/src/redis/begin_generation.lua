-- Begins a generation if Redis has lost its memory or was restarted (it may have read an old file). Answers with the
-- generation, and with '1' if it begins now.
--
-- KEYS[1]  the set of replicas
-- ARGV[2]  the name of this replica
-- ARGV[4]  a name for a new generation, which ends with ':' and the run id of the server
-- ARGV[5]  that run id, or '' if it is not known
-- ARGV[6]  a generation to discard, or ''
-- ARGV[7]  the least time for which budgets wait, in microseconds, so that unknown replicas can report
-- ARGV[8]  the longest time for which budgets wait, and for which this replica counts as alive, in microseconds
-- ARGV[9…] the replicas that have to report, besides those of the set

local key, run_id = KEYS[#KEYS], ARGV[5]
local rebuild = key .. ':rebuild'
local current = redis.call('GET', key)
note_replica(KEYS[1], tonumber(ARGV[8]))
local is_new = not current or current == ARGV[6] or (run_id ~= '' and string.sub(current, -#run_id - 1) ~= ':' .. run_id)
if is_new then
  current = ARGV[4]
  redis.call('SET', key, current)
  redis.call('DEL', rebuild)
  redis.call('HSET', rebuild, 'not_before', exact(now + tonumber(ARGV[7])), 'at_last', exact(now + tonumber(ARGV[8])))
  redis.call('PEXPIRE', rebuild, 600000)
  -- This replica may not have heard yet of one that joined the generation before.
  for _, name in ipairs(replica_names(KEYS[1])) do redis.call('HSETNX', rebuild, name, '0') end
end
if redis.call('EXISTS', rebuild) == 1 then
  redis.call('HSETNX', rebuild, request, '0')
  for i = 9, #ARGV - 1 do redis.call('HSETNX', rebuild, ARGV[i], '0') end
end
return { exact(now), '0', '', '', current, is_new and '1' or '0' }
