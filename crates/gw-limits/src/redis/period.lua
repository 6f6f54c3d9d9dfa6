-- For tests: the begin and the end of the current period. ARGV[4] is the kind of period.

local start, stop = current_period(ARGV[4])
return { exact(now), '0', '', '', whole(start), stop and whole(stop) or '' }
