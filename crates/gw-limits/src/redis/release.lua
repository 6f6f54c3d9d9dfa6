-- Releases the places of a request that is not in flight any more.

for _, subject in ipairs(subjects(0)) do
  redis.call('ZREM', subject.in_flight, request)
end
return { exact(now), '0', '', '' }
