"""What is under test: a command that speaks over stdio, an HTTP endpoint, or both; for our own server also its API."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from conformance.framework.checks import NotApplicable
from conformance.framework.wire import DELTA_MCP, DELTA_MCP_CAPABILITIES, LEGACY, MODERN, Era, Lines, Peer, Silent, Web

ROOT = Path(__file__).resolve().parents[2]
DEMO = (sys.executable, "-m", "conformance.framework.demo_server")
DEMO_NAME = "six-tools"
_USAGE = 2


class Target:
    """One server. Sessions that checks may share are opened once. `ours`: it is the demo server of this library."""

    def __init__(self, command: Sequence[str] = (), url: str = "", *, ours: bool = False) -> None:
        self.ours = ours
        self._command = tuple(command)
        self._url = url
        self._open = ExitStack()
        self._shared: dict[str, Any] = {}
        self._eras: dict[Era, bool] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    @property
    def command(self) -> tuple[str, ...]:
        """The command; not applicable where there is a URL only."""
        if not self._command:
            raise NotApplicable("the server is known by its URL only")
        return self._command

    @property
    def url(self) -> str:
        """The endpoint; not applicable where there is a command only."""
        if self._url:
            return self._url
        if not self.ours:
            raise NotApplicable("the server is known by its command only")
        if "url" not in self._shared:
            self._shared["url"] = self._open.enter_context(serving())
        return str(self._shared["url"])

    @property
    def transports(self) -> dict[str, list[str]]:
        """Every way to reach it: a command's words, or a URL alone."""
        ways = {"stdio": list(self._command)} if self._command else {}
        return {**ways, "http": [self.url]} if self._url or self.ours else ways

    def need_api(self) -> None:
        """Go no further where the check is of the library's functions and something else is under test."""
        if not self.ours:
            raise NotApplicable("a check of this library's functions")

    @contextmanager
    def lines(self, era: Era = "legacy") -> Generator[Lines, None, None]:
        """Start the command for one check; not applicable where it does not speak that era."""
        self._need_era(era)
        with closing(Lines(self.command, era)) as lines:
            yield lines

    @contextmanager
    def web(self, era: Era = "legacy", url: str = "") -> Generator[Web, None, None]:
        """Open a client of the endpoint for one check; not applicable where it does not speak that era."""
        self._need_era(era)
        with closing(Web(url or self.url, era)) as web:
            yield web

    @contextmanager
    def fresh(self, era: Era = "legacy") -> Generator[Peer, None, None]:
        """Open a client over lines where there is a command, else over HTTP; not applicable as `lines`."""
        self._need_era(era)
        with closing(Lines(self._command, era) if self._command else Web(self.url, era)) as peer:
            yield peer

    def _need_era(self, era: Era) -> None:
        if not self._speaks(era):
            raise NotApplicable(f"the server does not speak the {era} era")

    def _speaks(self, era: Era) -> bool:
        """Whether the server knows an era. One that refuses the handshake and knows no other era is wrong instead."""
        if era not in self._eras:
            with closing(Lines(self._command, era) if self._command else Web(self.url, era)) as peer:
                known = _answers(peer)
            self._eras[era] = known or (era == "legacy" and not self._speaks("modern"))
        return self._eras[era]

    @contextmanager
    def served(self, *options: str) -> Generator[str, None, None]:
        """Serve over HTTP with options of the demo server; not applicable to others and to options it lacks."""
        if not self.ours:
            raise NotApplicable(f"needs a server that was started with {options[0]}")
        with serving(*options) as url:
            yield url

    @property
    def plain(self) -> Peer:
        """A session of the standard protocol, shared by checks that leave it as it is."""
        return self._session("plain", LEGACY, {})

    @property
    def delta_mcp(self) -> Peer:
        """A shared session of delta-mcp 0.x."""
        session = self._session("delta-mcp", DELTA_MCP, DELTA_MCP_CAPABILITIES)
        if not str(session.info.get("protocolVersion")).startswith("delta-mcp/"):
            raise NotApplicable("the server does not speak delta-mcp 0.x here")
        return session

    def _session(self, name: str, version: str, capabilities: dict[str, Any]) -> Peer:
        if name not in self._shared:
            peer = self._shared[name] = self._open.enter_context(self.fresh())
            peer.begin(version, capabilities)
        session: Peer = self._shared[name]
        return session

    @property
    def tools(self) -> dict[str, dict[str, Any]]:
        """The definitions of the standard list by their names."""
        if "tools" not in self._shared:
            answer = self.plain.ask("tools/list")
            self._shared["tools"] = {tool["name"]: tool for tool in answer.get("result", {}).get("tools", [])}
        tools: dict[str, dict[str, Any]] = self._shared["tools"]
        return tools

    def need_tools(self, *names: str) -> None:
        """Go no further where the server lacks one of the demo's tools."""
        missing = [name for name in names if name not in self.tools]
        if missing:
            raise NotApplicable(f"the server has no tool {missing[0]}")

    def need_demo(self) -> None:
        """Go no further where tools must behave as the demo's do beyond their names."""
        if self.plain.info.get("serverInfo", {}).get("name") != DEMO_NAME:
            raise NotApplicable("needs the commands that the demo's run_command knows")

    def keep(self, name: str, value: Any) -> Any:  # noqa: ANN401 - whatever a check shares with others
        """Return what `keep` was given first under that name."""
        return self._shared.setdefault(name, value)

    def kept(self, name: str) -> Any:  # noqa: ANN401 - as `keep`
        """Return what was kept, None where nothing was."""
        return self._shared.get(name)


def _answers(peer: Peer) -> bool:
    try:
        answer = peer.begin() if peer.era == "legacy" else peer.ask("server/discover")
    except Silent:
        return False
    result = answer.get("result", {})
    return "protocolVersion" in result if peer.era == "legacy" else MODERN in result.get("supportedVersions", ())


@contextmanager
def serving(*options: str) -> Generator[str, None, None]:
    """Run the demo server over HTTP for the length of the block and give its URL."""
    command = [*DEMO, "http", "0", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url and process.wait() == _USAGE:
                raise NotApplicable(f"the server has no option {options[0]}")
            assert url, "the server ended before it served"
            yield url
        finally:
            process.terminate()
