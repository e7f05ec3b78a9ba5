"""The web console: a cluster in the browser, for any Kafka cluster.

It is an edge like the commands: it asks brokers over Kafka's protocol with the client library, as
the user who looks. A page is three things:

1. a row in `pages.py`:       Page("/topics", views.topics.listed, "topics.html", "Topics", nav="…")
2. a view in `views/`:        async def listed(asked: Asked) -> dict[str, object]: ...
3. a template in `templates/` that extends "frame.html" and shows what the view returned.

The frame (`application.py`) does the rest: it finds the session, answers the same data as JSON
under the page's address with `.json` at its end, turns faults of Kafka into a page with one
sentence, and refreshes `<main>` while somebody looks. A view that returns a Starlette `Response`
is answered as it is: streams and downloads.

A change is a row `Change("/topics/{topic}/delete", views.topics.deletion)` whose function returns
a `Plan`: what will happen in words, the same as a `moldau` command, the name that has to be typed,
and a function that does it. The frame asks, checks the form's token and the name, does it, writes
the audit list, and goes back with what was said. A form posts to a change with `{{ token() }}`.

A name in an address is written `{{ url("/topics/" ~ (name | word)) }}`, and read from
`asked.path["topic"]`.

What is asked of a whole cluster comes from `asked.link.recent(...)` (`recent_answers.py`): kept for
some seconds, and fetched anew behind the back of whoever looks.
"""
