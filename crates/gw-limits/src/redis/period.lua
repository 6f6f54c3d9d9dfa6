-- For tests: the begin and the end of the current period. ARGV[4] is the kind of period.

local start, stop = period_around(ARGV[4], unix)
return { exact(now), '0', '', '', whole(start), stop and whole(stop) or '' }
