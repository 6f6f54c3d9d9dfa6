-- Takes back a request that rules have counted, because another target serves it.
--
-- ARGV[4]  for each rule a moment of the bucket that counts the request, separated by commas

local moments = {}
for moment in string.gmatch(ARGV[4], '[^,]+') do moments[#moments + 1] = tonumber(moment) end
for i, subject in ipairs(subjects(1)) do
  if moments[i] then give_back(subject.state, moments[i]) end
end
return { exact(now), '0', '', '' }
