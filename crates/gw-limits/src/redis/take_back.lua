-- Takes back a request that rules have counted, because another target serves it.

for _, subject in ipairs(subjects(0)) do
  give_back(subject.state)
end
return { exact(now), '0', '', '' }
