-- Before the ledger is asked: the requests that it may know of or not. Answers with the version of the state and their
-- ids, a page at a time; a page without any is the last.
--
-- ARGV[4]  where the page begins
-- ARGV[5]  how many it has at most, of what is set aside and of what is over

local subject = subjects(2)[1]
purse(subject, subject.period)
local from = tonumber(ARGV[4])
local to = from + tonumber(ARGV[5]) - 1
local answer = { exact(now), '0', '', '', redis.call('HGET', subject.state, 'version') or '0' }
for _, member in ipairs(redis.call('ZRANGE', subject.leases, from, to)) do
  answer[#answer + 1] = string.gsub(member, '^%d+:', '')
end
for _, member in ipairs(redis.call('ZRANGE', subject.late, from, to)) do
  -- One that says something else is a line without a name: the page is not the last.
  answer[#answer + 1] = string.match(member, '^spent:%d+:%d+:(.*)$') or '-'
end
return answer
