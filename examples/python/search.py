"""Loads real vectors into a local cluster, searches them over HTTP and gRPC, and compares with NumPy.

    pointsman dev --data-dir pointsman-data      # in another terminal
    python search.py --data digits               # or: --data sentences
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import pyarrow.parquet as pq

import datasets
from client import Grpc, Http

K = 10
METRICS = ("l2", "inner_product", "cosine")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=("digits", "sentences"), default="digits")
    parser.add_argument("--pointsman", default="pointsman", help="the program")
    parser.add_argument("--data-dir", default="pointsman-data", help="that of `pointsman dev`")
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--index", action="store_true", help="search by an index, and tell how much it finds")
    args = parser.parse_args()
    ready = json.loads((pathlib.Path(args.data_dir) / "ready.json").read_text())

    table, condition, accepts = getattr(datasets, args.data)()
    load(args, table)
    vectors = np.stack(table["embedding"].to_numpy(zero_copy_only=False)).astype(np.float64)
    # Vectors of the data, moved a little so that none is found at distance 0.
    random = np.random.default_rng(7)
    places = random.choice(len(vectors), args.queries, replace=False)
    queries = (vectors[places] + 0.01 * random.standard_normal((args.queries, vectors.shape[1]))).astype(np.float32)

    differ = 0
    for client in (Http(ready["broker"]["http"]), Grpc(ready["broker"]["grpc"])):
        for metric in METRICS:
            for filter, allowed in ((None, np.ones(len(vectors), bool)), (condition, accepts(table))):
                options = {} if filter is None else {"filter": filter}
                answers = client.search(args.data, queries, K, metric=metric, columns=["id"], exact=not args.index, **options)
                wrong, found = compare(answers, distances(queries.astype(np.float64), vectors, metric), allowed)
                differ += wrong
                print(f"{client.name:4}  {metric:13}  {filter or 'no filter':12}  {wrong} of {len(queries)} differ, recall {found:.3f}")
    print("answers by resource group:")
    for group in sorted({node["resource_group"] for node in ready["nodes"]}):
        rows = Http(ready["broker"]["http"]).search(args.data, queries[:1], 3, resource_group=group)
        print(f"  {group}: {rows[0]}")
    if args.data == "sentences":
        ask(Http(ready["broker"]["http"]))
    if differ and not args.index:
        raise SystemExit(f"{differ} answers differ from NumPy's")


def load(args, table):
    """Creates the collection, pushes the rows in six segments, and loads it in two groups."""

    def pointsman(*words):
        subprocess.run([args.pointsman, "--data-dir", args.data_dir, *words], check=True)

    with tempfile.TemporaryDirectory() as folder:
        step = -(-len(table) // 6)
        files = []
        for part, start in enumerate(range(0, len(table), step)):
            files.append(f"{folder}/{args.data}-{part}.parquet")
            pq.write_table(table.slice(start, step), files[-1])
        pointsman(
            "collection", "create", args.data, "--like", files[0], "--shards", str(args.shards),
            "--key", "id", "--vector-index", "embedding:cosine",
        )  # fmt: skip
        pointsman("segment", "push", "--collection", args.data, *files)
        pointsman("load", args.data, "--resource-groups", "east,west", "--wait")


def distances(queries, vectors, metric):
    """All distances, by brute force and in double precision."""
    product = queries @ vectors.T
    if metric == "inner_product":
        return -product
    squares = (queries**2).sum(1)[:, None], (vectors**2).sum(1)[None, :]
    if metric == "cosine":
        return 1 - product / np.sqrt(squares[0] * squares[1])
    return squares[0] + squares[1] - 2 * product


def compare(answers, expected, allowed):
    """How many answers differ from the nearest rows that are allowed, and which share of these was found.

    Two rows may be as far as each other up to rounding: then either order is right. So distances are compared rank by
    rank, and each row that was found has to be as far as the answer says."""
    wrong, found = 0, 0
    for rows, distance in zip(answers, expected):
        nearest = np.sort(np.where(allowed, distance, np.inf))[:K]
        ids = np.array([row["id"] for row in rows], int)
        said = np.array([row["_distance"] for row in rows])
        close = 1e-4 * (1 + np.abs(nearest))
        same = len(ids) == len(set(ids)) == K and allowed[ids].all()
        same = same and (np.abs(said - nearest) <= close).all() and (np.abs(distance[ids] - said) <= close).all()
        wrong += not same
        found += sum(distance[ids] <= nearest[-1] + close[-1]) / K
    return wrong, found / len(answers)


def ask(client):
    """Searches by meaning."""
    from minilm import MiniLM

    questions = ["sort a list", "compress data", "what time is it", "list the files of a folder"]
    for question, rows in zip(questions, client.search("sentences", MiniLM().embed(questions), 3, columns=["name"])):
        print(f"{question}: " + ", ".join(f"{row['name']} ({row['_distance']:.2f})" for row in rows))


if __name__ == "__main__":
    main()
