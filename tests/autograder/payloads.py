"""Words that try to become more than words on somebody's page, and a trap that tells if they do.

    with Trap() as trap, Browser() as browser:
        trap.arm(browser)
        pages = {each.name: page_with(each.text) for each in payloads(trap.outside)}
        for name, found in trap.visit(browser, pages).items():
            assert found.harm == [], name

Each payload calls ``alert`` with its own name, or fetches its own name from ``outside``, so that
what the trap says tells which one it was.
"""

from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tests.browser import Browser

# @ALARM@: JavaScript that raises the alarm; @OUT@: an address that nothing may ask for.
_TEMPLATES = {
    # scripts, in every spelling
    "script": "<script>@ALARM@</script>",
    "script_case": "<ScRiPt >@ALARM@</sCrIpT\t>",
    "script_slash": "<script/x>@ALARM@</script>",
    "script_src": '<script src="@OUT@"></script>',
    "script_module": "<script type=module>@ALARM@</script>",
    "script_nested": "<scr<script>ipt>@ALARM@</scr</script>ipt>",
    "script_unclosed": "<script>@ALARM@//",
    "script_after_quote": "\"'><script>@ALARM@</script>",
    "script_after_pre": "</code></pre></td></table></details><script>@ALARM@</script>",
    "script_after_style": "</style></title></textarea></noscript><script>@ALARM@</script>",
    "script_from_entity": "&lt;script&gt;@ALARM@&lt;/script&gt;",
    "script_from_numbers": "&#60;script&#62;@ALARM@&#60;/script&#62;",
    "script_in_svg": "<svg><script>@ALARM@</script></svg>",
    "script_in_svg_href": '<svg><script href="data:text/javascript,@ALARM@" /></svg>',
    # handlers
    "img_onerror": "<img src=x onerror=@ALARM@>",
    "img_onerror_slashes": '<img/src="x"/onerror="@ALARM@">',
    "img_onerror_backticks": "<img src=`x` onerror=@ALARM@>",
    "attribute_break": '" onmouseover="@ALARM@" autofocus onfocus="@ALARM@" x="',
    "attribute_break_single": "' onmouseover='@ALARM@' autofocus onfocus='@ALARM@' x='",
    "svg_onload": "<svg onload=@ALARM@>",
    "svg_animate": "<svg><animate onbegin=@ALARM@ attributeName=x dur=1s>",
    "svg_use": '<svg><use href="data:image/svg+xml,<svg id=x onload=@ALARM@ '
    "xmlns='http://www.w3.org/2000/svg'/>#x\" /></svg>",
    "svg_foreign": "<svg><foreignObject><img src=x onerror=@ALARM@></foreignObject></svg>",
    "body_onload": "<body onload=@ALARM@>",
    "details_ontoggle": "<details open ontoggle=@ALARM@>x</details>",
    "input_autofocus": "<input autofocus onfocus=@ALARM@>",
    "video_error": "<video><source onerror=@ALARM@></video>",
    "audio_src": '<audio src="@OUT@" onerror=@ALARM@></audio>',
    "marquee": "<marquee onstart=@ALARM@>x</marquee>",
    "animation": "<style>@keyframes x{}</style><b style=animation-name:x onanimationstart=@ALARM@>",
    # addresses
    "javascript_link": '<a href="javascript:@ALARM@">x</a>',
    "javascript_link_tab": '<a href="java\tscript:@ALARM@">x</a>',
    "javascript_link_entity": '<a href="&#106;avascript&colon;@ALARM@">x</a>',
    "data_link": '<a href="data:text/html,<script>@ALARM@</script>">x</a>',
    "area": '<map><area shape=default href="javascript:@ALARM@">x</map>',
    "iframe_javascript": '<iframe src="javascript:@ALARM@"></iframe>',
    "iframe_srcdoc": '<iframe srcdoc="<script>@ALARM@</script>"></iframe>',
    "iframe_data": '<iframe src="data:text/html,<script>@ALARM@</script>"></iframe>',
    "object": '<object data="data:text/html,<script>@ALARM@</script>"></object>',
    "embed": '<embed src="@OUT@">',
    "meta_refresh": '<meta http-equiv="refresh" content="0;url=@OUT@">',
    "meta_refresh_data": '<meta http-equiv=refresh content="0;data:text/html,x">',
    "base": '<base href="@OUT@/"><img src=x>',
    "link_style": '<link rel=stylesheet href="@OUT@">',
    "link_prefetch": '<link rel=prefetch href="@OUT@"><link rel=preload as=image href="@OUT@">',
    "form_action": '<form action="@OUT@"><input name=x><button>x</button></form>',
    "button_formaction": '<form><button formaction="javascript:@ALARM@">x</button></form>',
    "isindex": '<form action="javascript:@ALARM@"><input type=image src="@OUT@"></form>',
    "img_out": '<img src="@OUT@"><img srcset="@OUT@ 2x">',
    "table_background": '<table background="@OUT@"><tr><td background="@OUT@">x</table>',
    # styles
    "style_import": '<style>@import "@OUT@";</style>',
    "style_url": '<b style="background:url(@OUT@)">x</b><style>*{background:url(@OUT@)}</style>',
    "style_expression": "<b style=\"width:expression(@ALARM@);-moz-binding:url('@OUT@')\">x</b>",
    "style_font": "<style>@font-face{font-family:f;src:url(@OUT@)}*{font-family:f}</style>",
    "style_attribute": 'x;background-image:url(@OUT@);"',
    # comments, templates, and what changes its meaning when it is parsed again
    "comment": "<!--><img src=x onerror=@ALARM@>-->",
    "conditional": "<!--[if gte IE 4]><script>@ALARM@</script><![endif]-->",
    "cdata": "<![CDATA[<script>@ALARM@</script>]]>",
    "processing": "<?xml-stylesheet href='@OUT@'?><img src=x onerror=@ALARM@>",
    "template": "<template><script>@ALARM@</script></template>",
    "shadow": "<b><template shadowrootmode=open><img src=x onerror=@ALARM@></template></b>",
    "noscript": '<noscript><p title="</noscript><img src=x onerror=@ALARM@>">',
    "plaintext": "<plaintext><xmp><listing>",
    "mutation_math": "<math><mtext><table><mglyph><style><!--</style>"
    '<img title="--&gt;&lt;img src=1 onerror=@ALARM@&gt;">',
    "mutation_svg_title": '<svg></p><style><a id="</style><img src=1 onerror=@ALARM@>">',
    "mutation_select": "<select><style></select><img src=x onerror=@ALARM@></style>",
    "mutation_title": "<math><mi><title><style></title><img src=x onerror=@ALARM@></style>",
    "mutation_form": "<form><math><mtext></form><form><mglyph><style></math>"
    "<img src onerror=@ALARM@>",
    "math_link": '<math href="javascript:@ALARM@">x</math>',
    "clobber": '<form id=body><img name=cookie><a id=alert href="javascript:@ALARM@">x</a></form>',
    "custom": "<x-y is=script onpointerenter=@ALARM@ tabindex=0 onfocus=@ALARM@>x</x-y>",
    # characters
    "fullwidth": "\uff1cscript\uff1e@ALARM@\uff1c/script\uff1e",
    "null": "<scr\x00ipt>@ALARM@</scr\x00ipt><img src=x \x00onerror=@ALARM@>",
    "vertical_tab": "<img\x0bsrc=x\x0conerror=@ALARM@>",
    "line_separator": "\u2028<img src=x onerror=@ALARM@>\u2029",
    "utf7": "+ADw-script+AD4-@ALARM@+ADw-/script+AD4-",
    "direction": "\u202e<script>@ALARM@</script>\u2066\u200f",
    "surrogate": "\ufffd\ufeff<script>@ALARM@</script>",
    "ansi": "\x1b]8;;@OUT@\x07link\x1b]8;;\x07\x1b[31m\x1b[2J\x1b]0;title\x07",
    # markdown
    "markdown_image": "![x](@OUT@)",
    "markdown_link": "[x](javascript:@ALARM@) [y](<java\nscript:@ALARM@>)",
    "markdown_reference": "[x][r] ![x][s]\n\n[r]: javascript:@ALARM@\n[s]: @OUT@\n",
    "markdown_autolink": "<javascript:@ALARM@> <@OUT@>",
    "markdown_attachment": '![x](attachment:x.svg" onerror="@ALARM@)',
    "markdown_title": '![x](@OUT@ "x\\"onerror=@ALARM@")',
    "markdown_fence": "~~~\n</code></pre><script>@ALARM@</script>\n~~~~~~\n"
    "```\n<svg onload=@ALARM@>",
    "markdown_table": "|a|\n|-|\n|<img src=x onerror=@ALARM@>|\n",
    "markdown_html_block": "\n\n<div>\n\n<script>\n@ALARM@\n</script>\n\n</div>\n\n",
    # mathematics
    "math_href": "$\\href{javascript:@ALARM@}{x}$",
    "math_display": "$$\\href{javascript:@ALARM@}{\\text{x}}$$",
    "math_html": "$\\unicode{<img src=x onerror=@ALARM@>}"
    "\\class{x}{\\style{background:url(@OUT@)}{y}}$",
    "math_require": "\\(\\require{html}\\cssId{x}{\\href{javascript:@ALARM@}{y}}\\)",
    "math_break": "$x</script><script>@ALARM@</script>$",
    # templates of ours and of others
    "jinja": "{{ ''.__class__ }}{% for x in page %}<script>@ALARM@</script>{% endfor %}",
    "underscore": "<%= @ALARM@ %><% @ALARM@ %>",
    "angular": "{{constructor.constructor('@ALARM@')()}}",
    "json_break": '"]}</script><script>@ALARM@</script>',
}


@dataclass(frozen=True)
class Payload:
    """One attempt; its alarm or its request carries its name."""

    name: str
    text: str


def payloads(outside: str) -> list[Payload]:
    """All payloads, with `outside` as the address that nothing may ask for."""
    return [
        Payload(
            name,
            text.replace("@ALARM@", f"alert`{name}`").replace("@OUT@", f"{outside}/{name}"),
        )
        for name, text in _TEMPLATES.items()
    ]


# What raises the alarm on a page: calls of alert, also those of frames.
_SPY = "for (const f of ['alert', 'confirm', 'prompt']) window[f] = w => __alarm(f + ' ' + w);"
# What a reader does, and more: open, click, hover and focus everything on a page; and then what
# is there: each kind of element with the names of its attributes, and where links lead.
_TRY = """(page, root) => {
  const kinds = new Set();
  for (const one of page.querySelectorAll(root + ', ' + root + ' *')) {
    const names = [...one.attributes].map(each => each.name).sort().join(' ');
    const to = one.getAttribute('href') || one.getAttribute('xlink:href') || '';
    kinds.add(one.localName + '[' + names + ']' + (to.startsWith('#') ? '' : to));
  }
  for (const one of page.querySelectorAll(root + ' details')) one.open = true;
  for (const one of page.querySelectorAll(root + ' *')) {
    for (const kind of ['mouseover', 'mouseenter', 'pointerenter', 'focus', 'toggle'])
      one.dispatchEvent(new Event(kind));
    const to = one.getAttribute('href') || one.getAttribute('xlink:href') || '';
    if (!to.startsWith('#'))
      one.dispatchEvent(new MouseEvent('click', {bubbles: false, cancelable: true}));
  }
  return [...kinds].sort();
}"""
_TRY_FRAMES = """(async () => {
  const found = {};
  const frames = [...document.querySelectorAll('iframe')];
  const look = (frame, what) => {
    try { return what(frame.contentDocument); } catch (error) { return null; }
  };
  for (const frame of frames)
    found[frame.name] = [look(frame, page => (TRY)(page, ROOT)), look(frame, page => page.title)];
  await new Promise(done => setTimeout(done, 200));  // for what was begun by that
  for (const frame of frames) {
    const now = look(frame, page => page.title + ' ' + page.location.pathname);
    found[frame.name].push(now);
    found[frame.name].push(look(frame, page => SHOWN));
  }
  return found;
})()"""


@dataclass
class Found:
    """What one page did and showed."""

    harm: list[str]
    kinds: set[str]  # of elements, by tag and attributes, and links that leave the page
    shown: str | None = None


class _Handler(http.server.BaseHTTPRequestHandler):
    """Gives the page of this moment, and notes what else is asked for."""

    def do_GET(self) -> None:
        pages: dict[str, bytes] = self.server.pages  # type: ignore[attr-defined]
        asked: list[str] = self.server.asked  # type: ignore[attr-defined]
        found = pages.get(self.path)
        if found is None:
            asked.append(self.path)
        self.send_response(200 if found is not None else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(found or b"<title>outside</title>")

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _serve() -> http.server.ThreadingHTTPServer:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.pages, server.asked = {}, []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


class Trap:
    """Two servers: one has the pages, the other is where nobody may go."""

    def __enter__(self) -> Trap:
        self._inside, self._outside = _serve(), _serve()
        self.inside = f"http://127.0.0.1:{self._inside.server_address[1]}"
        self.outside = f"http://127.0.0.1:{self._outside.server_address[1]}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in (self._inside, self._outside):
            server.shutdown()
            server.server_close()

    def arm(self, browser: Browser) -> None:
        """Let this browser tell of every alarm; once for a browser."""
        browser.call("Runtime.addBinding", name="__alarm")
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=_SPY)

    def visit(
        self, browser: Browser, pages: Mapping[str, str], *, root: str = "body", shown: str = "''"
    ) -> dict[str, Found]:
        """Open pages beside each other, each in a frame, and try everything that is on them.

        Args:
            pages: name -> document; the name of the payload that is on it.
            root: the part of each page that is looked at (CSS).
            shown: JavaScript: what to read of a ``page``.
        """
        frames = "".join(f'<iframe name="{name}" src="/{name}"></iframe>' for name in pages)
        index = f"<!DOCTYPE html><title>pages</title>{frames}"
        served = {f"/{name}": page.encode("utf-8", "replace") for name, page in pages.items()}
        self._inside.pages = {"/": index.encode(), **served}  # type: ignore[attr-defined]
        browser.open(f"{self.inside}/")
        script = _TRY_FRAMES.replace("TRY", _TRY).replace("ROOT", json.dumps(root))
        told = browser.ask(script.replace("SHOWN", shown))
        found = {}
        for name, (kinds, title, now, text) in told.items():
            found[name] = Found([], set(kinds or ()), text)
            if now is None or now != f"{title} /{name}":
                found[name].harm.append(f"the page became {now!r}, from {title!r}")
        for sentence in self.alarms(browser, f"{self.inside}/"):
            of = [word for word in re.split(r"[ /]", sentence) if word in found] or ["?"]
            found.setdefault(of[0], Found([], set())).harm.append(sentence)
        if browser.ask("document.title + location.pathname") != "pages/":
            found.setdefault("?", Found([], set())).harm.append("the page around them went away")
        return found

    def try_page(self, browser: Browser, *, root: str, allowed: str) -> Found:
        """The same for a page that is open: all under ``root``, where requests to ``allowed`` are
        right."""
        before = browser.ask("document.title + ' ' + location.origin + location.pathname")
        kinds = browser.ask(f"({_TRY})(document, {json.dumps(root)})")
        browser.ask("new Promise(done => setTimeout(done, 200))")
        harm = self.alarms(browser, allowed)
        # Pages of nbgrader's own note in the query where one is.
        if (
            now := browser.ask("document.title + ' ' + location.origin + location.pathname")
        ) != before:
            harm.append(f"the page became {now}")
        return Found(harm, set(kinds))

    def alarms(self, browser: Browser, allowed: str) -> list[str]:
        """What pages did, in sentences that name the payload."""
        browser.ask("1")
        events = browser._events
        found = [
            f"alarm: {event['params']['payload']}"
            for event in events
            if event.get("method") == "Runtime.bindingCalled"
        ]
        ours = (allowed, "data:", "blob:", "about:")
        found += [f"request: {url}" for url in browser.requested() if not url.startswith(ours)]
        asked: list[str] = self._outside.asked  # type: ignore[attr-defined]
        found += [f"outside was asked for {path}" for path in asked]
        asked.clear()
        return found


def as_notebook_outputs(payload: Payload) -> list[dict[str, Any]]:
    """Outputs of a notebook's cell that a student could have left there."""
    script = "alert`" + payload.name + "`"
    return [
        {"output_type": "display_data", "metadata": {}, "data": data}
        for data in (
            {"text/html": payload.text},
            {"application/javascript": script},
            {"image/svg+xml": f"<svg onload={script}>{payload.text}</svg>"},
            {"text/markdown": payload.text},
            {"text/latex": f"$\\href{{javascript:{script}}}{{x}}$"},
            {"application/vnd.jupyter.widget-view+json": {"model_id": payload.text}},
            {"text/plain": payload.text, "image/png": json.dumps(payload.text)},
        )
    ] + [
        {"output_type": "stream", "name": "stdout", "text": payload.text},
        {
            "output_type": "error",
            "ename": payload.text,
            "evalue": payload.text,
            "traceback": [payload.text],
        },
    ]
