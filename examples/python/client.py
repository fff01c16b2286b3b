"""Two ways to search from Python: over HTTP with the standard library alone, and over gRPC with Arrow."""

import importlib
import json
import pathlib
import sys
import tempfile
import urllib.error
import urllib.request

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"


class Http:
    """`POST /v1/search`."""

    name = "HTTP"

    def __init__(self, url):
        self.url = url

    def search(self, collection, vectors, k, **options):
        """For each vector the nearest rows, as a list of dictionaries. Options: metric, filter, columns, exact,
        candidates, resource_group, timeout_ms."""
        body = {"collection": collection, "vectors": [list(map(float, vector)) for vector in vectors], "k": k, **options}
        request = urllib.request.Request(f"{self.url}/v1/search", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["rows"]
        except urllib.error.HTTPError as error:
            # The body says what went wrong, and whether the same request may succeed later.
            raise RuntimeError(error.read().decode()) from None


class Grpc:
    """`pointsman.broker.v1.ShardRequests`."""

    name = "gRPC"

    def __init__(self, url):
        import grpc
        from grpc_tools import protoc

        # The contract as Python modules, made from the repository's proto files.
        made = tempfile.mkdtemp(prefix="pointsman-proto-")
        files = [
            "pointsman/common/v1/schema.proto",
            "pointsman/common/v1/request.proto",
            "pointsman/broker/v1/shard_requests.proto",
        ]
        arguments = ["protoc", f"-I{PROTO}", f"--python_out={made}", f"--grpc_python_out={made}"]
        if protoc.main(arguments + files) != 0:
            raise RuntimeError("protoc failed")
        sys.path.insert(0, made)
        load = importlib.import_module
        self.common = load("pointsman.common.v1.request_pb2")
        self.broker = load("pointsman.broker.v1.shard_requests_pb2")
        # Answers may be larger than the 4 MiB that grpc takes by default.
        options = [("grpc.max_receive_message_length", 80 << 20)]
        channel = grpc.insecure_channel(url.removeprefix("http://"), options=options)
        self.stub = load("pointsman.broker.v1.shard_requests_pb2_grpc").ShardRequestsStub(channel)

    def search(self, collection, vectors, k, metric="l2", resource_group="", timeout_ms=0, **options):
        """As that of `Http`."""
        import pyarrow as pa

        search = self.common.Search(
            vectors=[self.common.Vector(values=vector) for vector in vectors],
            k=k,
            metric=getattr(self.common, f"METRIC_{metric.upper()}"),
            **options,
        )
        request = self.broker.SearchRequest(
            collection=collection,
            search=search,
            options=self.broker.RequestOptions(resource_group=resource_group, timeout_ms=timeout_ms),
        )
        answer = self.stub.Search(request, timeout=60)
        rows = [[] for _ in vectors]
        for row in pa.ipc.open_stream(answer.rows).read_all().to_pylist():
            rows[row.pop("_query")].append(row)
        return rows
