-- The second door: sets the worst case aside with every subject, or with none.
--
-- ARGV[4]  tokens
-- ARGV[5]  nano-USD
-- ARGV[6]  nano-USD that will do when so many are not left
--
-- Answers with the time, the number of the subject that refuses (0: none), why ('tokens', 'never', 'budget', 'unknown',
-- 'rebuilding'), a detail (of tokens `next`; of nothing refused the nano-USD that are set aside; else as `enter` has it), and the epoch
-- of each subject's state.

local all = subjects(3)
local tokens, nano, least = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

for i, subject in ipairs(all) do
  subject.money = purse(subject, subject.budget and subject.period)
  if subject.budget and not subject.money.known then
    keep(subject, false)
    return { exact(now), tostring(i), unknown(), whole(subject.money.start) }
  end
end

-- All are asked before anything is taken.
for i, subject in ipairs(all) do
  if subject.tpm then
    local before = tonumber(redis.call('HGET', subject.state, 'tokens')) or 0
    if tokens > subject.tpm then return { exact(now), tostring(i), 'never', '' } end
    subject.after = take(before, tokens, subject.tpm, subject.tpm)
    -- A stream that sets more money aside asks for no tokens, and is not refused any.
    if not subject.after and tokens > 0 then return { exact(now), tostring(i), 'tokens', exact(before) } end
  end
  local money = subject.money
  if subject.budget then
    nano = math.min(nano, subject.budget - (money.spent + money.reserved))
    if nano < least then
      return { exact(now), tostring(i), 'budget', money.stop and whole(money.stop - unix) or '' }
    end
  end
end

local answer = { exact(now), '0', '', whole(nano) }
for i, subject in ipairs(all) do
  if subject.after then put(subject.state, 'tokens', exact(subject.after)) end
  set_aside(subject, subject.money, nano, request)
  keep(subject, true)
  answer[4 + i] = subject.money.epoch
end
return answer
