-- Puts what was really used in the place of what was set aside, once, however often it is delivered.
--
-- ARGV[4]  tokens that were set aside
-- ARGV[5]  nano-USD that were set aside; '' when the caller does not know (a journal that is replayed)
-- ARGV[6]  tokens that were used
-- ARGV[7]  nano-USD that were spent
-- ARGV[8]  epochs of the subjects' states at that time, with commas between
-- ARGV[9]  how long ago the request began, in microseconds: what it spent counts in that period alone
--
-- The lease itself says whether this was done before:
--   it is there                it is ended, and the spending counts
--   it has expired             a mark says so: the spending counts, and the mark goes
--   the state is another one   (evicted since, and made anew from the ledger) the spending counts, and leaves a mark
--   neither                    it was done before, or the ledger knows of it: what Redis lost with its whole memory each
--                              replica has told it again (`report.lua`)

local all = subjects(6)
local aside, used = tonumber(ARGV[4]), tonumber(ARGV[6])
local spent = tonumber(ARGV[7])
local begun = math.floor((time - tonumber(ARGV[9])) / 1000000)
local epochs = {}
for epoch in string.gmatch(ARGV[8] .. ',', '([^,]*),') do epochs[#epochs + 1] = epoch end

-- Whether something was set aside in a state that is gone, since Redis lost its memory last.
local function is_gone(epoch, of_now)
  return epoch ~= of_now and string.sub(epoch or '', 1, #generation + 1) == generation .. '/'
end

-- The member that stands for this request, if there is one.
local function member_of(subject)
  if ARGV[5] ~= '' then return whole(tonumber(ARGV[5])) .. ':' .. request end
  for _, member in ipairs(redis.call('ZRANGE', subject.leases, 0, -1)) do
    if string.gsub(member, '^%d+:', '') == request then return member end
  end
end

for i, subject in ipairs(all) do
  local money = purse(subject)
  local member = member_of(subject)
  local counts = false
  if member and redis.call('ZREM', subject.leases, member) == 1 then
    counts = true
    put(subject.state, 'open', money.open - 1, 'reserved', whole(money.reserved - amount(member)))
    local tokens = subject.tpm and used and redis.call('HGET', subject.state, 'tokens')
    if tokens then put(subject.state, 'tokens', exact(adjust(tonumber(tokens) or 0, used - aside, subject.tpm))) end
  elseif redis.call('ZREM', subject.late, request) == 1 then
    counts = true
  elseif spent > 0 and ARGV[5] ~= '' and is_gone(epochs[i], money.epoch) then
    counts = mark(subject, 'settled:' .. request)
  end
  if counts and spent > 0 then spend(subject, money, spent, request, begun) end
  if redis.call('EXISTS', subject.state) == 1 then
    subject.budget = subject.budget or (money.known and 0)
    keep(subject, money.known)
  end
end
return { exact(now), '0', '', '' }
