SELECT id, collection, name, partition_name, shard, object, row_count, byte_count, checksum, statistics, created_at
FROM segments
WHERE collection = $1 AND NOT dropped
ORDER BY name
