"""A real MIT KDC for tests, and what speaks to it, from Debian's packages.

They are unpacked into a cache and run from there on a free port; nothing is installed. Where there
are no such packages, tests that need them are skipped with the reason.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from moldau.testing.broker_process import free_port

PACKAGES = (
    *("krb5-kdc", "krb5-admin-server", "krb5-user", "libkadm5srv-mit12", "libkadm5clnt-mit12"),
    *("libkdb5-10", "libgssrpc4", "libverto1", "libverto-libev1", "libev4", "libss2"),
    *("libkrb5-3", "libgssapi-krb5-2", "libk5crypto3", "libkrb5support0", "libkeyutils1"),
    *("libcom-err2", "python3-gssapi", "python3-decorator"),
    *("kcat", "librdkafka1", "libyajl2", "libavro23", "libjansson4", "libsasl2-2"),
    "libsasl2-modules-gssapi-mit",
)
HOME = Path.home() / ".cache" / "moldau" / "kerberos"
REALM = "MOLDAU.TEST"
SECONDS_MAX = 60


class NoKerberos(Exception):
    """The packages cannot be had here, and why."""


def root() -> Path:
    """The folder with the unpacked packages. Raises NoKerberos."""
    found = HOME / "root"
    if found.exists():
        return found
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise NoKerberos("a KDC comes from Debian's packages, and there is no apt-get here")
    arriving = HOME / f"arriving.{os.getpid()}"
    arriving.mkdir(parents=True)
    try:
        for package in PACKAGES:
            done = _run(["apt-get", "download", "-q", package], arriving)
            if done.returncode:
                raise NoKerberos(f"{package} cannot be fetched: {done.stderr.strip()[-300:]}")
        for deb in sorted(arriving.glob("*.deb")):
            done = _run(["dpkg", "-x", str(deb), str(arriving / "root")], arriving)
            if done.returncode:
                raise NoKerberos(f"{deb.name} cannot be unpacked: {done.stderr.strip()}")
        if not found.exists():
            (arriving / "root").rename(found)
    finally:
        shutil.rmtree(arriving, ignore_errors=True)
    return found


def _run(words: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=directory, capture_output=True, text=True, timeout=5 * SECONDS_MAX
    )


class Realm:
    """A KDC with key tables; `environment` points others at it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = root()
        self.port = free_port()
        self.libraries = self.root / "usr" / "lib" / "x86_64-linux-gnu"
        if not self.libraries.exists():
            raise NoKerberos("the packages are for another kind of machine")
        self._kdc: subprocess.Popen[bytes] | None = None

    @property
    def configuration(self) -> Path:
        return self.directory / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """For whoever speaks to the KDC: the library, the package `gssapi`, and where it is."""
        python = self.root / "usr" / "lib" / "python3" / "dist-packages"
        return {
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "KRB5RCACHEDIR": str(self.directory),
            "LD_LIBRARY_PATH": f"{self.libraries}:{self.root}/lib/x86_64-linux-gnu",
            "PYTHONPATH": str(python),
            "SASL_PATH": str(self.libraries / "sasl2"),
        }

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.configuration.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
            " dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n"
            " udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n"
            f"[domain_realm]\n localhost = {REALM}\n"
            f"[dbmodules]\n db_module_dir = {self.libraries}/krb5/plugins/kdb\n"
        )
        (self.directory / "kdc.conf").write_text(
            f'[kdcdefaults]\n kdc_listen = ""\n kdc_tcp_listen = 127.0.0.1:{self.port}\n'
            f"[realms]\n {REALM} = {{\n  database_name = {self.directory}/principal\n"
            f"  key_stash_file = {self.directory}/stash\n  max_life = 1h\n"
            "  supported_enctypes = aes256-cts:normal\n }\n"
        )
        self._tool("kdb5_util", "create", "-s", "-r", REALM, "-P", "master", "-W")
        with (self.directory / "kdc.log").open("wb") as log:
            self._kdc = subprocess.Popen(
                [self.root / "usr/sbin/krb5kdc", "-n"],
                env=os.environ | self.environment,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        self._wait()
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self._kdc is not None
                ended = self._kdc.poll() is not None
                if ended or time.monotonic() > deadline:
                    raise AssertionError((self.directory / "kdc.log").read_text()) from None
                time.sleep(0.05)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._kdc is not None:
            self._kdc.terminate()
            self._kdc.wait(SECONDS_MAX)

    def _tool(self, name: str, *arguments: str) -> None:
        tool = self.root / "usr" / "sbin" / name
        done = subprocess.run(
            [tool, *arguments],
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert done.returncode == 0, done.stderr

    def add(self, principal: str) -> Path:
        """A new principal with a key drawn at random; its key table."""
        table = self.directory / f"{principal.replace('/', '-')}.keytab"
        for query in (f"addprinc -randkey {principal}", f"ktadd -k {table} {principal}"):
            self._tool("kadmin.local", "-r", REALM, "-q", query)
        assert table.exists()
        return table

    def has_python_package(self) -> bool:
        done = subprocess.run(
            [sys.executable, "-c", "import gssapi"],
            env=os.environ | self.environment,
            capture_output=True,
        )
        return done.returncode == 0
