"""JAAS entries: Kafka's grammar, a closed list of modules, and secrets that stay secret."""

from __future__ import annotations

import pytest

from moldau.security.jaas import JaasError, parse_login_module, parse_sections

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def options(text: str) -> dict[str, str]:
    return dict(parse_login_module(f"{PLAIN} required {text};").options)


def test_options_are_words_or_quoted_texts() -> None:
    assert options("""username=admin password="a\\"b c" user_bob='x;"=y' user_c.d-e=f$1""") == {
        "username": "admin",
        "password": 'a"b c',
        "user_bob": 'x;"=y',
        "user_c.d-e": "f$1",
    }


def test_the_flag_may_be_in_any_case_and_comments_are_skipped() -> None:
    text = f"// first\n{PLAIN} /* the\nflag */ ReQuired a=b /c to the end\n c=d;"
    assert parse_login_module(text).options == {"a": "b", "c": "d"}


def test_escapes_are_javas() -> None:
    assert options(r'a="x\ty\101\\"') == {"a": "x\tyA\\"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   // nothing",
        f"{PLAIN}",
        f"{PLAIN} perhaps a=b;",
        f"{PLAIN} required a=b",
        f"{PLAIN} required a=5;",
        f"{PLAIN} required a=-x;",
        f"{PLAIN} required a;",
        f"{PLAIN} required a=;",
        f"{PLAIN} required =b;",
        f'{PLAIN} required a="open;',
        f"{PLAIN} required a=b; {PLAIN} required a=b;",
        f"{PLAIN} required a=b; }}",
        "com.sun.security.auth.module.JndiLoginModule required a=b;",
        "com.sun.security.auth.module.LdapLoginModule required;",
        "required a=b;",
    ],
)
def test_what_is_not_one_known_module_is_refused(text: str) -> None:
    with pytest.raises(JaasError):
        parse_login_module(text)


@pytest.mark.parametrize(
    "rest", ["password=hun ter2;", "password=hunter2", "password=1hunter2;", "hunter2;", "hunter2"]
)
def test_no_sentence_quotes_what_may_be_a_password(rest: str) -> None:
    with pytest.raises(JaasError) as fault:
        parse_login_module(f"{PLAIN} required username=x {rest}")
    for piece in ("hun", "ter2"):
        assert piece not in str(fault.value)


def test_a_module_hides_its_options() -> None:
    module = parse_login_module(f"{PLAIN} required password=hunter;")
    assert "hunter" not in repr(module)
    assert "hunter" not in f"{module}"
    assert module.serves("PLAIN")
    assert not module.serves("SCRAM-SHA-256")


def test_a_file_has_sections() -> None:
    sections = parse_sections(
        f"""
        KafkaServer {{
            {PLAIN} required user_a=b;
            org.apache.kafka.common.security.scram.ScramLoginModule required;
        }};
        Client {{ org.apache.zookeeper.server.auth.DigestLoginModule required username=x; }};
        """
    )
    assert [module.class_name.rpartition(".")[2] for module in sections["KafkaServer"]] == [
        "PlainLoginModule",
        "ScramLoginModule",
    ]
    assert sections["Client"][0].options == {"username": "x"}


@pytest.mark.parametrize(
    "text", ["A", "A {", "A { };  A { };", f"A {{ {PLAIN} required a=b }};", "A { }", "{ };"]
)
def test_a_damaged_file_is_refused(text: str) -> None:
    with pytest.raises(JaasError):
        parse_sections(text)
