"""Files and command lines of a node's components. Nothing here starts anything: `first_process` does, in the order that they need."""

import json
import secrets
from pathlib import Path

from kubernetes.programs import PAUSE_IMAGE, Programs
from stack.commands import run

NODE = "node"
ADDRESS = "10.99.0.1"
"""Of the node, in a network namespace of its own: Pods, and the machine through relays, reach it here."""
API = f"https://{ADDRESS}:6443"
RUNTIME = "/run/containerd/containerd.sock"
_SERVICES, _PODS = "10.96.0.0/16", "10.244.0.0/16"
_ETCD = "http://127.0.0.1:2379"

_USERS = {
    "admin": ("admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kubelet": (f"system:node:{NODE}", "system:nodes"),
    "proxy": ("system:kube-proxy", ""),
}


def kubeconfig(folder: Path, user: str) -> Path:
    """The file with which `user` (admin, controllers, scheduler, kubelet, proxy) reaches the API server."""
    return folder / f"{user}.kubeconfig"


def write(folder: Path, programs: Programs) -> None:
    """Write every file that a component reads."""
    for part in ("log", "certificates", "cni", "volumes"):
        (folder / part).mkdir(exist_ok=True)
    _write_keys(folder)
    _write_logins(folder)
    (folder / "containerd.toml").write_text(
        f"""version = 2
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "{RUNTIME}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true # lowering it takes CAP_SYS_RESOURCE, which root in a container lacks
  disable_tcp_service = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{programs.cni_plugins}"
    conf_dir = "{folder}/cni"
"""
    )
    ipam = {"type": "host-local", "ranges": [[{"subnet": _PODS.replace("/16", "/24")}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "pods0", "isGateway": True, "ipMasq": True, "hairpinMode": True, "ipam": ipam}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    (folder / "cni" / "10-bridge.conflist").write_text(json.dumps({"cniVersion": "0.4.0", "name": "bridge", "plugins": [bridge, ports]}))
    (folder / "resolv.conf").write_text(f"nameserver {ADDRESS}\n")
    (folder / "Corefile").write_text(
        f".:53 {{\n errors\n kubernetes cluster.local in-addr.arpa {{\n  kubeconfig {kubeconfig(folder, 'admin')} context\n }}\n cache 5\n}}\n"
    )
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(folder / "kubelet-client.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": f"unix://{RUNTIME}",
        "failSwapOn": False,
        "failCgroupV1": False,
        "clusterDNS": [ADDRESS],
        "clusterDomain": "cluster.local",
        "oomScoreAdj": 0,
        "resolvConf": str(folder / "resolv.conf"),
        "podLogsDir": str(folder / "pods"),
        "volumePluginDir": str(folder / "volume-plugins"),
        "imageGCHighThresholdPercent": 100,
        # A full disk of the machine is not what is tested.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%"},
        "nodeStatusUpdateFrequency": "5s",
        "maxPods": 50,
    }
    (folder / "kubelet.yaml").write_text(json.dumps(kubelet, indent=1))


def control_plane(folder: Path, programs: Programs) -> dict[str, list[str]]:
    """Name and command line of what runs before there is a node."""
    kubernetes = str(programs.kubernetes)
    controllers, scheduler = kubeconfig(folder, "controllers"), kubeconfig(folder, "scheduler")
    return {
        "etcd": [
            str(programs.system / "usr/bin/etcd"),
            f"--data-dir={folder}/etcd",
            f"--listen-client-urls={_ETCD}",
            f"--advertise-client-urls={_ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--initial-advertise-peer-urls=http://127.0.0.1:2380",
            "--initial-cluster=default=http://127.0.0.1:2380",
            "--unsafe-no-fsync",  # the cluster ends with the test
        ],
        "api-server": [
            kubernetes,
            "kube-apiserver",
            f"--etcd-servers={_ETCD}",
            "--bind-address=0.0.0.0",
            f"--advertise-address={ADDRESS}",
            f"--cert-dir={folder}/certificates",
            f"--service-cluster-ip-range={_SERVICES}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder}/service-accounts.pub",
            f"--service-account-signing-key-file={folder}/service-accounts.key",
            f"--token-auth-file={folder}/tokens.csv",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            "--enable-admission-plugins=NodeRestriction",
            "--profiling=false",
            f"--kubelet-client-certificate={folder}/kubelet-client.crt",
            f"--kubelet-client-key={folder}/kubelet-client.key",
            "--kubelet-preferred-address-types=InternalIP",
        ],
        "controllers": [
            kubernetes,
            "kube-controller-manager",
            f"--kubeconfig={controllers}",
            f"--authentication-kubeconfig={controllers}",
            f"--authorization-kubeconfig={controllers}",
            "--bind-address=127.0.0.1",
            f"--service-account-private-key-file={folder}/service-accounts.key",
            f"--root-ca-file={folder}/certificates/apiserver.crt",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--profiling=false",
        ],
        "scheduler": [
            kubernetes,
            "kube-scheduler",
            f"--kubeconfig={scheduler}",
            f"--authentication-kubeconfig={scheduler}",
            f"--authorization-kubeconfig={scheduler}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            "--profiling=false",
        ],
    }


def node(folder: Path, programs: Programs) -> dict[str, list[str]]:
    """Name and command line of what makes this a node that runs Pods."""
    kubernetes = str(programs.kubernetes)
    return {
        "containerd": [str(programs.system / "usr/bin/containerd"), f"--config={folder}/containerd.toml"],
        "names": [str(programs.coredns), f"-conf={folder}/Corefile"],
        "kubelet": [
            kubernetes,
            "kubelet",
            f"--config={folder}/kubelet.yaml",
            f"--kubeconfig={kubeconfig(folder, 'kubelet')}",
            f"--root-dir={folder}/kubelet",
            f"--cert-dir={folder}/kubelet/pki",
            f"--hostname-override={NODE}",
            f"--node-ip={ADDRESS}",
        ],
        "proxy": [
            kubernetes,
            "kube-proxy",
            f"--kubeconfig={kubeconfig(folder, 'proxy')}",
            f"--hostname-override={NODE}",
            "--proxy-mode=iptables",
            f"--cluster-cidr={_PODS}",
            "--conntrack-max-per-core=0",  # settings of the machine's kernel stay as they are
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            "--bind-address=127.0.0.1",
            "--healthz-bind-address=127.0.0.1:10256",
        ],
    }


def _write_keys(folder: Path) -> None:
    """A key pair for the tokens of service accounts, and a certificate that the API server shows to the kubelet."""
    private, public = folder / "service-accounts.key", folder / "service-accounts.pub"
    run(["openssl", "genrsa", "-out", str(private), "2048"], what="Making a key")
    run(["openssl", "rsa", "-in", str(private), "-pubout", "-out", str(public)], what="Writing its public half")
    pair = ["-keyout", str(folder / "kubelet-client.key"), "-out", str(folder / "kubelet-client.crt")]
    who = ["-subj", "/O=system:masters/CN=apiserver-kubelet-client", "-addext", "extendedKeyUsage=clientAuth"]
    run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *who, *pair], what="Making a certificate")


def _write_logins(folder: Path) -> None:
    tokens = {user: secrets.token_hex(16) for user in _USERS}
    lines = [",".join(filter(None, (tokens[user], name, name, group))) + "\n" for user, (name, group) in _USERS.items()]
    _write_private(folder / "tokens.csv", "".join(lines))
    for user, token in tokens.items():
        cluster = {"server": API, "certificate-authority": str(folder / "certificates" / "apiserver.crt")}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
            "current-context": "context",
        }
        _write_private(kubeconfig(folder, user), json.dumps(config))


def _write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)
