-- What a group takes beside numbers of nodes, and the labels that its filter reads.
ALTER TABLE resource_groups ADD COLUMN transfer_from TEXT NOT NULL DEFAULT '[]'; -- JSON: names of groups
ALTER TABLE resource_groups ADD COLUMN transfer_to TEXT NOT NULL DEFAULT '[]'; -- JSON: names of groups
ALTER TABLE resource_groups ADD COLUMN node_filter TEXT NOT NULL DEFAULT '{}'; -- JSON: label to value
ALTER TABLE nodes ADD COLUMN labels TEXT NOT NULL DEFAULT '{}'; -- JSON: label to value
