-- For tests: the period around a moment. ARGV[4] is which.

local start, stop = window(ARGV[4])
return { exact(now), '0', '', '', whole(start), stop and whole(stop) or '' }
