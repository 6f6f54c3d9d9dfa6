-- A replica is alive: notes it and answers with how many are.
--
-- KEYS[1]  a sorted set of replicas, by the moment at which each is taken for gone
-- ARGV[2]  this replica
-- ARGV[3]  how long it is taken to be alive, in microseconds

redis.call('ZADD', KEYS[1], exact(now + lease), request)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', exact(now))
redis.call('PEXPIRE', KEYS[1], whole(lease / 1000 + 1000))
return { exact(now), '0', '', '', tostring(redis.call('ZCARD', KEYS[1])) }
