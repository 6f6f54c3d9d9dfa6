-- Lists the requests that the ledger may or may not know, before it is asked for a budget's spending. A short page is the
-- last one. Answers with:
--   the version of the state
--   the number of requests that went while the spending was unknown
--   the begin and the end of the time whose spending was known before: '' and '' if there is none, '' without an end
--   a page of ids
--
-- ARGV[4]  the index of the first id
-- ARGV[5]  the most ids of leases, and the most ids of marks, in a page
-- ARGV[6]  the second field of the answer with the first page, '' for the first page

local subject = subjects(3)[1]
budget_state(subject, subject.period)
local got = redis.call('HMGET', subject.state, 'version', 'gone', 'before_from', 'before_until')
local gone = tonumber(got[2]) or 0
-- An id moves to the front when one before it goes. It may be listed twice, but never left out.
local from = math.max(0, tonumber(ARGV[4]) - math.max(0, gone - (tonumber(ARGV[6]) or gone)))
local to = from + tonumber(ARGV[5]) - 1
local answer = { exact(now), '0', '', '', got[1] or '0', whole(gone), got[3] or '', got[4] or '' }
for _, member in ipairs(redis.call('ZRANGE', subject.leases, from, to)) do
  answer[#answer + 1] = string.gsub(member, '^%d+:', '')
end
for _, member in ipairs(redis.call('ZRANGE', subject.marks, from, to)) do
  -- Marks of requests that have counted become '-', so that they do not make the page look short.
  local id = string.match(member, '^spent:%d+:%d+:(.*)$')
  answer[#answer + 1] = id or (string.sub(member, 1, 8) == 'settled:' and '-' or member)
end
return answer
