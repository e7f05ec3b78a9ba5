"""The frame around all pages: sessions, the JSON beside each page, faults, and changes that ask.

Built once by `serving.py`. It knows pages and changes only as rows of `pages.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from moldau.client.shared.client_errors import AuthenticationError, KafkaError
from moldau.console.audit_list import AuditList
from moldau.console.changing import carry_out, hidden_fields
from moldau.console.cluster_link import ClusterLink
from moldau.console.console_settings import ConsoleSettings
from moldau.console.entrance.gate import Gate
from moldau.console.entrance.guards import check_origin, form_of
from moldau.console.entrance.sessions import Session, Sessions
from moldau.console.entrance.signing_in import SigningIn
from moldau.console.faults import fault_of
from moldau.console.history import History
from moldau.console.machine.metrics_watch import MetricsWatch
from moldau.console.page import Asked, Change, Page, PageFault
from moldau.console.pages import CHANGES, PAGES, TOPIC_TABS, menu
from moldau.console.rendering import Rendering, assets_path, json_response

log = logging.getLogger("moldau.console")

Endpoint = Callable[[Request], Awaitable[Response]]
REFRESH = "hx-request"
"""The header of a request that only wants `<main>` again."""


@dataclass(slots=True)
class Application:
    settings: ConsoleSettings
    audit: AuditList
    sessions: Sessions
    shared: ClusterLink | None
    """Everybody's way to the cluster; None where users log in."""
    signing_in: SigningIn
    rendering: Rendering
    metrics: MetricsWatch

    def asgi(self) -> Gate:
        routes: list[Route | Mount] = []
        for page in PAGES:
            routes.append(Route(_json_path(page.path), self._page(page, is_json=True)))
            routes.append(Route(page.path, self._page(page, is_json=False)))
        routes += [Route(row.path, self._change(row), methods=["POST"]) for row in CHANGES]
        routes += [
            Route("/login", self._login_form),
            Route("/login", self._login, methods=["POST"]),
            Route("/logout", self._logout, methods=["POST"]),
            Mount("/assets", StaticFiles(directory=assets_path())),
        ]
        starlette = Starlette(
            routes=routes,
            exception_handlers={
                HTTPException: self._refused,
                PageFault: self._faulty,
                KafkaError: self._faulty,
                Exception: self._broken,
            },
        )
        return Gate(starlette, self.settings)

    def begin(self) -> None:
        """Where all share one way to the cluster, the first who looks need not wait for it."""
        if self.shared is not None:
            self._watch(self.shared)

    async def close(self) -> None:
        self.sessions.end_all()
        await self.signing_in.close_ended()
        await self.metrics.stop()
        if self.shared is not None:
            await self.shared.close()

    # Pages

    def _page(self, page: Page, *, is_json: bool) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            request.state.is_json = is_json
            session = self._session(request)
            link = self.shared if session is None else session.link
            if link is None:
                return self._to_login(request, is_json)
            self._watch(link)
            asked = self._asked(request, link, {}, is_json)
            shown = await page.view(asked)
            await self.signing_in.close_ended()
            if isinstance(shown, Response):
                return shown
            if is_json:
                return json_response(shown)
            session = session or self.sessions.begin(self.shared)
            return self._html(request, session, page.template, shown, page=page)

        return endpoint

    def _watch(self, link: ClusterLink) -> None:
        """What is looked at while somebody looks: rates, lag, what changes."""
        link.used_at = time.monotonic()
        if link.history is None:
            link.history = History(link, self.settings.sample_seconds)
        link.history.watch()

    def _asked(
        self, request: Request, link: ClusterLink, form: Mapping[str, str], is_json: bool = False
    ) -> Asked:
        return Asked(
            link=link,
            settings=self.settings,
            audit=self.audit,
            metrics=self.metrics,
            path={key: unquote(str(word)) for key, word in request.path_params.items()},
            query=dict(request.query_params),
            form=form,
            address=request.client.host if request.client else "",
            agent=request.headers.get("user-agent", "")[:300],
            is_json=is_json,
        )

    def _html(
        self,
        request: Request,
        session: Session,
        template: str,
        data: Mapping[str, Any],
        *,
        page: Page | None = None,
        title: str = "",
        status: int = 200,
    ) -> Response:
        notices: list[str] = []
        if REFRESH not in request.headers:
            notices, session.notices = session.notices, []
        path = request.url.path
        query = f"?{request.url.query}" if request.url.query else ""
        frame = {
            "title": title or (page.title if page else ""),
            "menu": menu(),
            "path": path,
            "address": self.settings.path_prefix + path + query,
            "json_address": self.settings.path_prefix + _json_path(path) + query if page else "",
            "refreshes": page is not None and page.refreshes,
            "principal": session.link.principal if session.link else "",
            "can_log_out": session.owns_link,
            "is_signed_in": session.link is not None,
            "read_only": self.settings.read_only,
            "cluster": self.settings.bootstrap,
            "notices": notices,
            "topic_tabs": TOPIC_TABS,
            "tab": page.tab if page else "",
            "token": session.token,
        }
        response = self.rendering.html(template, {"frame": frame, "data": data, **data}, status)
        self._remember(response, session)
        return response

    # Changes

    def _change(self, change: Change) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            session, form = await self._trusted(request)
            if session.link is None:
                return self._to_login(request, is_json=False)
            if self.settings.read_only:
                raise PageFault(403, "This console is read-only: it was started with --read-only.")
            asked = self._asked(request, session.link, form)
            plan = await change.plan(asked)
            is_confirmed = form.get("confirmed") == "yes" or not change.asks
            is_typed = not plan.typed or form.get("typed", "").strip() == plan.typed
            if not is_confirmed or not is_typed:
                data = {
                    "plan": plan,
                    "fields": hidden_fields(form),
                    "is_mistyped": is_confirmed and not is_typed,
                }
                status = 400 if is_confirmed else 200
                return self._html(
                    request, session, "confirm.html", data, title=plan.title, status=status
                )
            session.tell(await carry_out(plan, asked))
            session.link.answers.forget()
            return RedirectResponse(self.rendering.url(plan.after), 303)

        return endpoint

    async def _trusted(self, request: Request) -> tuple[Session, dict[str, str]]:
        """The session and the form of a request that changes something."""
        check_origin(request.headers)
        form = await form_of(request)
        session = self._session(request)
        if session is None or not session.accepts(form.get("token", "")):
            raise PageFault(
                403,
                "The form is too old or not of this console. Go back, load the page, try again.",
            )
        return session, form

    # Signing in

    async def _login_form(self, request: Request) -> Response:
        session = self._session(request) or self.sessions.begin(self.shared)
        if session.link is not None:
            return RedirectResponse(self.rendering.url("/"), 303)
        data = {"next": request.query_params.get("next", ""), "user": "", "fault": ""}
        return self._html(request, session, "login.html", data, title="Sign in")

    async def _login(self, request: Request) -> Response:
        before, form = await self._trusted(request)
        address = request.client.host if request.client else ""
        agent = request.headers.get("user-agent", "")[:300]
        signed = await self.signing_in.sign_in(form, address, agent)
        if isinstance(signed, str):
            data = {"next": form.get("next", ""), "user": form.get("user", ""), "fault": signed}
            return self._html(request, before, "login.html", data, title="Sign in", status=403)
        self.sessions.end(before.word)
        session = self.sessions.begin(signed, owns_link=True)
        response = RedirectResponse(self.rendering.url(_own_path(form.get("next", ""))), 303)
        self._remember(response, session)
        return response

    async def _logout(self, request: Request) -> Response:
        session, _ = await self._trusted(request)
        self.sessions.end(session.word)
        await self.signing_in.close_ended()
        response = RedirectResponse(self.rendering.url("/"), 303)
        response.delete_cookie(self._cookie, path=self.settings.path_prefix or "/")
        return response

    def _to_login(self, request: Request, is_json: bool) -> Response:
        if is_json:
            return json_response({"fault": "Sign in first."}, 401)
        path = request.url.path if request.method == "GET" else "/"
        return RedirectResponse(self.rendering.url("/login", next=path), 303)

    def _session(self, request: Request) -> Session | None:
        return self.sessions.find(request.cookies.get(self._cookie, ""))

    @property
    def _cookie(self) -> str:
        # Browsers send a cookie to all ports of a host; two consoles must not take each other's.
        return f"moldau_console_{self.settings.port}"

    def _remember(self, response: Response, session: Session) -> None:
        response.set_cookie(
            self._cookie,
            session.word,
            path=self.settings.path_prefix or "/",
            httponly=True,
            samesite="strict",
            secure=self.settings.has_tls,
        )

    # What went wrong

    async def _faulty(self, request: Request, error: Exception) -> Response:
        fault = fault_of(error)
        is_json = getattr(request.state, "is_json", False)
        session = self._session(request)
        if isinstance(error, AuthenticationError) and session is not None and session.owns_link:
            # The password was changed, or the user is gone.
            self.sessions.end(session.word)
            await self.signing_in.close_ended()
            return self._to_login(request, is_json)
        if is_json:
            return json_response({"fault": fault.sentence}, fault.status)
        session = session or self.sessions.begin(self.shared)
        data = {"fault": fault}
        title = "Not there" if fault.status == 404 else "Not possible"
        return self._html(request, session, "fault.html", data, title=title, status=fault.status)

    async def _refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        sentences = {404: "There is no such page.", 405: "That is not how this page is asked."}
        sentence = sentences.get(error.status_code, error.detail)
        request.state.is_json = request.url.path.endswith(".json")
        return await self._faulty(request, PageFault(error.status_code, sentence))

    async def _broken(self, request: Request, error: Exception) -> Response:
        # A mistake of the console: Starlette raises it again after this, so it is in the log.
        sentence = "The console has made a mistake; its log says more."
        return await self._faulty(request, PageFault(500, sentence))


def _json_path(path: str) -> str:
    return "/overview.json" if path == "/" else path + ".json"


def _own_path(path: str) -> str:
    """Where to go after the log-in: a page of the console, whatever the address said."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if is_own and path.isprintable() else "/"
