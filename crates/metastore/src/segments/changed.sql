SELECT id, collection, name, partition_name, shard, object, row_count, byte_count, checksum, statistics, created_at,
    dropped
FROM segments
WHERE id > $1
ORDER BY id
LIMIT 10000
