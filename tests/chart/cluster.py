"""A cluster as helm sees it when it looks objects up: its version, its kinds, and the objects that it is given. Only rendering asks it."""

import http.server
import json
import threading
from contextlib import contextmanager

VERSION = {"major": "1", "minor": "34", "gitVersion": "v1.34.4", "platform": "linux/amd64"}
KINDS = {
    "v1": {
        "ConfigMap": "configmaps", "Secret": "secrets", "Service": "services", "ServiceAccount": "serviceaccounts", "Pod": "pods",
        "PersistentVolumeClaim": "persistentvolumeclaims",
    },
    "apps/v1": {"Deployment": "deployments", "StatefulSet": "statefulsets"},
    "networking.k8s.io/v1": {"NetworkPolicy": "networkpolicies"},
    "policy/v1": {"PodDisruptionBudget": "poddisruptionbudgets"},
}  # fmt: skip
"""What the chart makes, by the version of the interface, with the word in paths."""


class _Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.partition("?")[0].rstrip("/")
        found = self.server.answers.get(path)
        missing = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "NotFound",
            "code": 404,
            "message": f"{path} not found",
        }
        body = json.dumps(missing if found is None else found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def _answers(objects):
    groups = [{"groupVersion": version, "version": version.partition("/")[2]} for version in KINDS if "/" in version]
    answers = {
        "/version": VERSION,
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [{"name": one["groupVersion"].partition("/")[0], "versions": [one], "preferredVersion": one} for one in groups],
        },
    }
    for version, kinds in KINDS.items():
        resources = [
            {"name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": ["get", "list"]}
            for kind, plural in kinds.items()
        ]
        answers[_path(version)] = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
    for found in objects:
        plural = KINDS.get(found["apiVersion"], {}).get(found["kind"])
        if plural is not None:
            at = found["metadata"]
            answers[f"{_path(found['apiVersion'])}/namespaces/{at['namespace']}/{plural}/{at['name']}"] = found
    return answers


def _path(version):
    return f"/{'apis' if '/' in version else 'api'}/{version}"


@contextmanager
def cluster(objects, folder):
    """Serve a cluster with these objects. Yields the file by which kubectl and helm reach it."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        server.answers = _answers(objects)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        file = folder / "kubeconfig"
        file.write_text(
            json.dumps({
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                "users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            })
        )  # fmt: skip
        yield file
        server.shutdown()
