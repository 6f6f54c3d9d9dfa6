-- Replaces a reservation by the real usage. Repeated deliveries of one settlement count once.
--
-- ARGV[4]  the reserved tokens
-- ARGV[5]  the reserved nano-USD, '' if the caller does not know them (a replayed journal)
-- ARGV[6]  the used tokens
-- ARGV[7]  the cost in nano-USD
-- ARGV[8]  the epochs of the subjects' states when the request reserved, separated by commas
-- ARGV[9]  the age of the request in microseconds. The cost counts in the period in which the request began.
--
-- The lease decides whether the cost counts:
--   the lease exists           the cost counts, and the lease ends
--   the lease has expired      the cost counts, and the mark of the expired lease goes
--   the state has been evicted and learned anew from the ledger: the cost counts, and leaves a mark
--   otherwise                  the cost does not count: the request was settled before, or the ledger knows its cost
-- A lease that was lost with the whole memory of Redis exists again, because its replica has reported it
-- (`report_holding.lua`).

local all = subjects(6)
local reserved_tokens, used_tokens = tonumber(ARGV[4]), tonumber(ARGV[6])
local cost = tonumber(ARGV[7])
local begun = math.floor((time - tonumber(ARGV[9])) / 1000000)
local epochs = {}
for epoch in string.gmatch(ARGV[8] .. ',', '([^,]*),') do epochs[#epochs + 1] = epoch end

-- Whether the request reserved in a state of this generation that does not exist any more.
local function is_evicted(epoch, current_epoch)
  return epoch ~= current_epoch and string.sub(epoch or '', 1, #generation + 1) == generation .. '/'
end

-- Whether a reservation of this id belongs to the request. In a replayed journal, the ids of further reservations are not known.
local function is_own(id)
  return id == request or string.sub(id, 1, #request + 1) == request .. PART
end

-- Ends the leases and the marks of a request of a replayed journal. Returns their numbers and the reserved amount.
local function end_replayed(subject)
  local count, marks, nano = 0, 0, 0
  for _, member in ipairs(redis.call('ZRANGE', subject.leases, 0, -1)) do
    if is_own((string.gsub(member, '^%d+:', ''))) and redis.call('ZREM', subject.leases, member) == 1 then
      count, nano = count + 1, nano + amount(member)
    end
  end
  for _, member in ipairs(redis.call('ZRANGE', subject.marks, 0, -1)) do
    if is_own(member) then marks = marks + redis.call('ZREM', subject.marks, member) end
  end
  return count, marks, nano
end

for i, subject in ipairs(all) do
  -- The place among the requests in flight ends with the process that died.
  if ARGV[5] == '' then redis.call('ZREM', subject.in_flight, request) end
  local money = budget_state(subject)
  -- The caller does not know the limits of a replayed request. While the spending is unknown, the cost becomes a mark.
  if ARGV[5] == '' then subject.budget = subject.budget or 0 end
  local counts, is_listed = false, false
  local leases, marks, nano = 0, 0, tonumber(ARGV[5])
  if ARGV[5] == '' then
    leases, marks, nano = end_replayed(subject)
  else
    leases = redis.call('ZREM', subject.leases, whole(nano) .. ':' .. request)
    marks = leases == 0 and redis.call('ZREM', subject.marks, request) or 0
  end
  if leases > 0 then
    counts, is_listed = true, true
    note_gone(subject, money, leases + marks)
    put(subject.state, 'open', money.open - leases, 'reserved', whole(money.reserved - nano))
    local tokens = subject.tpm and used_tokens and redis.call('HGET', subject.state, 'tokens')
    if tokens then
      local more = used_tokens - reserved_tokens
      put(subject.state, 'tokens', exact(settle_tat(tonumber(tokens) or 0, more, subject.tpm)))
    end
  elseif marks > 0 then
    counts, is_listed = true, true
    note_gone(subject, money, marks)
  elseif cost > 0 and ARGV[5] ~= '' and is_evicted(epochs[i], money.epoch) then
    counts = add_mark(subject, 'settled:' .. request)
  end
  if counts and cost > 0 then add_cost(subject, money, cost, request, begun, is_listed) end
  if redis.call('EXISTS', subject.state) == 1 then
    subject.budget = subject.budget or (money.is_known and 0)
    set_ttl(subject, money.is_known)
  end
end
return { exact(now), '0', '', '' }
