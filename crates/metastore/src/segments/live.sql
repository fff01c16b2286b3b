SELECT id, collection, name, partition_name, shard, object, row_count, byte_count, checksum, statistics, created_at,
    dropped
FROM segments
WHERE collection = $1 AND NOT dropped AND name > $2
ORDER BY name
LIMIT 10000
