-- Reads how far the limits of subjects are used up. Nothing is counted.
--
-- Answers with the four common fields, then four fields for each subject, '' if there is no such limit. The common fields
-- name the first subject whose spending the ledger can tell: 'unknown' and the begin of the period.
--   requests: with a burst the TAT, without a burst 'requests newest 0' (WindowState in sliding_window.rs)
--   tokens: the TAT
--   requests in flight
--   budget: 'spent reserved' in nano-USD, '' while the spending is unknown

local answer = { exact(now), '0', '', '' }
for i, subject in ipairs(subjects(0)) do
  local slot = 1 + i * 4
  local requests, tokens = unpack(redis.call('HMGET', subject.state, 'requests', 'tokens'))
  answer[slot], answer[slot + 1], answer[slot + 2], answer[slot + 3] = '', '', '', ''
  if subject.rpm and subject.burst then
    answer[slot] = exact(tonumber(requests) or 0)
  elseif subject.rpm then
    local window = read_window(subject.state)
    answer[slot] = window.sum .. ' ' .. exact(window.newest) .. ' 0'
  end
  if subject.tpm then answer[slot + 1] = exact(tonumber(tokens) or 0) end
  if subject.max_in_flight then
    answer[slot + 2] = tostring(redis.call('ZCOUNT', subject.in_flight, '(' .. exact(now), '+inf'))
  end
  if subject.budget then
    local money = budget_state(subject, subject.period)
    if money.is_known then
      answer[slot + 3] = whole(money.spent) .. ' ' .. whole(money.reserved)
    elseif answer[2] == '0' and unknown_reason() == 'unknown' then
      answer[2], answer[3], answer[4] = tostring(i), 'unknown', whole(money.start)
    end
  end
end
return answer
