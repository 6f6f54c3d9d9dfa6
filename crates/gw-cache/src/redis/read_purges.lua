-- Reads the table.
return redis.call('HGETALL', KEYS[1])
