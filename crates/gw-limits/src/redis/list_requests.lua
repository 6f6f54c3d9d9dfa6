-- Lists the requests that the ledger may or may not know, before it is asked for a budget's spending. Answers with the
-- version of the state and a page of ids. A short page is the last one.
--
-- ARGV[4]  the index of the first id
-- ARGV[5]  the most ids of leases, and the most ids of marks, in a page

local subject = subjects(2)[1]
budget_state(subject, subject.period)
local from = tonumber(ARGV[4])
local to = from + tonumber(ARGV[5]) - 1
local answer = { exact(now), '0', '', '', redis.call('HGET', subject.state, 'version') or '0' }
for _, member in ipairs(redis.call('ZRANGE', subject.leases, from, to)) do
  answer[#answer + 1] = string.gsub(member, '^%d+:', '')
end
for _, member in ipairs(redis.call('ZRANGE', subject.marks, from, to)) do
  -- Other marks become '-', so that they do not make the page look short.
  answer[#answer + 1] = string.match(member, '^spent:%d+:%d+:(.*)$') or '-'
end
return answer
