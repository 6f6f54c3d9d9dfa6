-- Reserves the tokens and the money of the worst case with every subject, or with none.
--
-- ARGV[4]  tokens
-- ARGV[5]  nano-USD to reserve if they are left
-- ARGV[6]  the least nano-USD that the request can do with
--
-- Answers with:
--   1  the time
--   2  the number of the subject that refuses, 0 if none does
--   3  the reason: 'tokens', 'never', 'budget', 'unknown' or 'rebuilding'
--   4  the detail: of 'tokens' the TAT; without a refusal the nano-USD that are reserved; otherwise as in `admit.lua`
--   then the epoch of each subject's state

local all = subjects(3)
local tokens, nano, least = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

for i, subject in ipairs(all) do
  subject.money = budget_state(subject, subject.budget and subject.period)
  if subject.budget and not subject.money.is_known then
    set_ttl(subject, false)
    return { exact(now), tostring(i), unknown_reason(), whole(subject.money.start) }
  end
end

-- Every subject is checked before anything is reserved.
for i, subject in ipairs(all) do
  if subject.tpm then
    local before = tonumber(redis.call('HGET', subject.state, 'tokens')) or 0
    if tokens > subject.tpm then return { exact(now), tostring(i), 'never', '' } end
    subject.after = take(before, tokens, subject.tpm, subject.tpm)
    -- A stream that reserves more money asks for no tokens. It must not be refused for want of tokens.
    if not subject.after and tokens > 0 then return { exact(now), tostring(i), 'tokens', exact(before) } end
  end
  local money = subject.money
  if subject.budget then
    local left = subject.budget - (money.spent + money.reserved)
    nano = math.min(nano, left)
    if nano < least then
      return { exact(now), tostring(i), 'budget', budget_detail(money, left) }
    end
  end
end

local answer = { exact(now), '0', '', whole(nano) }
for i, subject in ipairs(all) do
  if subject.after then put(subject.state, 'tokens', exact(subject.after)) end
  add_lease(subject, subject.money, nano, request)
  set_ttl(subject, true)
  answer[4 + i] = subject.money.epoch
end
return answer
