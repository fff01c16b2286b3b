-- A restored backup and a failover passed over 2^32 numbers of every kind, and numbers of resource groups have 31 bits: no
-- group could be created any more. 2^16 are enough; no group has got a number since.
UPDATE counters SET last = last % 4294967296 + last / 4294967296 * 65536
WHERE kind = 'resource_group' AND last >= 4294967296;
