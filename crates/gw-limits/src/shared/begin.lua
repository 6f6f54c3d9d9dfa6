-- Begins a generation when Redis has lost its memory, or was started again, perhaps from an old file; says which one it is.
--
-- ARGV[2]  this replica
-- ARGV[4]  a name for the new one, which ends with ':' and the run id of the server
-- ARGV[5]  that run id, or '' when it is not known
-- ARGV[6]  a generation that is over, or ''
-- ARGV[7]  budgets wait for so many microseconds at least: for replicas that nobody knows of yet
-- ARGV[8]  and for so many at most
-- ARGV[9…] replicas that are waited for
--
-- Answers with the generation, and whether it begins now ('1').

local key, run = KEYS[#KEYS], ARGV[5]
local rebuild = key .. ':rebuild'
local current = redis.call('GET', key)
local is_new = not current or current == ARGV[6] or (run ~= '' and string.sub(current, -#run - 1) ~= ':' .. run)
if is_new then
  current = ARGV[4]
  redis.call('SET', key, current)
  redis.call('DEL', rebuild)
  redis.call('HSET', rebuild, 'not_before', exact(now + tonumber(ARGV[7])), 'at_last', exact(now + tonumber(ARGV[8])))
  redis.call('PEXPIRE', rebuild, 600000)
end
if redis.call('EXISTS', rebuild) == 1 then
  redis.call('HSETNX', rebuild, request, '0')
  for i = 9, #ARGV - 1 do redis.call('HSETNX', rebuild, ARGV[i], '0') end
end
return { exact(now), '0', '', '', current, is_new and '1' or '0' }
