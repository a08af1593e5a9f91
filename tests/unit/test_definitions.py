"""Definitions: names are unique, settings are checked at once, and handlers stay testable functions."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import pytest

from sloppyjobs import (
    Cancel,
    Definition,
    DuplicateJob,
    InvalidOption,
    InvalidPayload,
    Job,
    Jobs,
    Retry,
    RetryLater,
    Snooze,
    UnknownJob,
    storage,
)


@pytest.fixture
def jobs() -> Jobs:
    return Jobs("sqlite://")


def top_level(ctx: Any, payload: Any) -> Any:
    """Says what it was given."""
    return payload


async def coroutine(ctx: Any, payload: Any) -> Any:
    return payload


class Callable:
    def __call__(self, ctx: Any, payload: Any) -> Any:
        return payload


class AsyncCallable:
    async def __call__(self, ctx: Any, payload: Any) -> Any:
        return payload


def test_a_decorated_handler_can_be_called_as_the_function_it_is(jobs: Jobs) -> None:
    @jobs.define("add", queue="sums")
    def add(ctx: Any, payload: list[int]) -> int:
        """Adds."""
        return sum(payload)

    assert add(None, [1, 2]) == 3
    assert (add.name, add.queue, add.__name__, add.__doc__) == ("add", "sums", "add", "Adds.")


def test_a_definition_and_a_job_take_their_types_at_run_time_too(jobs: Jobs) -> None:
    definition: Definition[list[int], int] = jobs.define("add", lambda ctx, payload: sum(payload))
    assert isinstance(definition, Definition)
    assert (Definition[list[int], int].__origin__, Job[int].__origin__) == (Definition, Job)  # type: ignore[attr-defined]


def test_a_handler_can_be_given_as_an_argument(jobs: Jobs) -> None:
    assert jobs.define("say", top_level)(None, "hello") == "hello"


def test_jobs_say_how_another_process_gets_them(jobs: Jobs) -> None:
    with pytest.raises(TypeError, match="at the top of a module, and import it there"):
        pickle.dumps(jobs)


def test_a_name_is_defined_once(jobs: Jobs) -> None:
    jobs.define("say", top_level)
    with pytest.raises(DuplicateJob, match="'say' is defined already"):
        jobs.define("say", top_level)
    with pytest.raises(DuplicateJob):
        jobs.declare("say")


def test_a_declared_name_can_be_defined_later_but_not_declared_again(jobs: Jobs) -> None:
    jobs.declare("say")
    with pytest.raises(DuplicateJob):
        jobs.declare("say")
    jobs.define("say", top_level)
    assert jobs.definitions.handled() == {"say"}


def test_a_declared_job_cannot_be_called(jobs: Jobs) -> None:
    with pytest.raises(UnknownJob, match="handled elsewhere"):
        jobs.declare("elsewhere")(None, 1)


def test_two_jobs_objects_do_not_share_names() -> None:
    one, two = Jobs("sqlite://"), Jobs("sqlite://")
    one.define("say", top_level)
    two.define("say", top_level)


def test_an_unknown_name_says_what_is_known(jobs: Jobs) -> None:
    with pytest.raises(UnknownJob, match="Known here: none yet"):
        jobs.definitions.require("say")
    jobs.declare("say")
    with pytest.raises(UnknownJob, match=r"'sya'.*Known here: say"):
        jobs.definitions.require("sya")


@pytest.mark.parametrize(
    ("handler", "isolation"),
    [(top_level, "thread"), (coroutine, "async"), (Callable(), "thread"), (AsyncCallable(), "async")],
)
def test_isolation_follows_the_kind_of_handler(jobs: Jobs, handler: Any, isolation: str) -> None:
    assert jobs.define("say", handler).isolation == isolation


def test_a_function_at_the_top_of_a_module_can_have_a_process(jobs: Jobs) -> None:
    assert jobs.define("say", top_level, isolation="process").isolation == "process"


@pytest.mark.parametrize(
    ("handler", "isolation"),
    [
        (coroutine, "thread"),
        (coroutine, "process"),
        (top_level, "async"),
        (top_level, "fibre"),
        (lambda ctx, payload: None, "process"),
        (partial(top_level), "process"),
    ],
)
def test_isolation_that_does_not_fit_is_refused(jobs: Jobs, handler: Any, isolation: Any) -> None:
    with pytest.raises(InvalidOption, match="isolation="):
        jobs.define("say", handler, isolation=isolation)
    assert jobs.definitions.get("say") is None


@pytest.mark.parametrize(
    "settings",
    [
        {"queue": ""},
        {"queue": "q" * 129},
        {"timeout": 0},
        {"timeout": "long"},
        {"priority": 1.5},
        {"retry": 5},
        {"redact": "token"},
        {"redact": [5]},
        {"redact": [""]},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused(jobs: Jobs, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        jobs.define("say", top_level, **settings)


def test_metadata_that_is_not_json_is_refused(jobs: Jobs) -> None:
    with pytest.raises(InvalidPayload, match="metadata"):
        jobs.define("say", top_level, metadata={"a": object()})


def test_an_unknown_setting_is_refused(jobs: Jobs) -> None:
    with pytest.raises(InvalidOption, match=r"define has no option 'prioritty'\. Did you mean 'priority'\?"):
        jobs.define("say", top_level, prioritty=3)  # type: ignore[call-arg, call-overload]
    with pytest.raises(
        InvalidOption, match="Its options are expires, input, isolation, log, metadata, name, partition, priority"
    ):
        jobs.declare("say", colour="red")  # type: ignore[call-arg]
    assert jobs.definitions.get("say") is None


def test_an_unknown_option_is_refused_wherever_options_are_given(jobs: Jobs) -> None:
    say = jobs.define("say", top_level)
    with pytest.raises(InvalidOption, match=r"enqueue has no option 'prioritty'\. Did you mean 'priority'\?"):
        say.enqueue({}, prioritty=3)
    with pytest.raises(InvalidOption, match="Did you mean 'delay'"):
        jobs.enqueue_delayed("say", {}, 3, dellay=3)
    with pytest.raises(InvalidOption, match=r"items\[1\]: enqueue has no option 'prioritty'. Did you mean 'priority'"):
        jobs.enqueue_many([("say", {}), ("say", {}, {"prioritty": 3})])
    with pytest.raises(InvalidOption, match=r"enqueue_many has no option 'sesion'\. Did you mean 'session'"):
        jobs.enqueue_many([("say", {})], sesion=None)  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match=r"create_worker has no option 'concurency'\. Did you mean 'concurrency'"):
        jobs.create_worker(concurency=3)
    with pytest.raises(InvalidOption, match=r"recurring has no option 'corn'\. Did you mean 'cron'"):
        jobs.recurring("nightly", "say", corn="0 2 * * *")  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match=r"recurring has no option 'evry'\. Did you mean 'every'"):
        jobs.declare_recurring("nightly", "say", evry=5)  # type: ignore[call-arg]
    with pytest.raises(InvalidOption, match="Did you mean 'prefix'"):
        storage.from_url("sqlite://", prefx="acme_")


def test_define_without_a_name_is_refused_with_the_right_form(jobs: Jobs) -> None:
    with pytest.raises(InvalidOption, match=r"needs the name of the job: @jobs\.define\('send_email'\)"):

        @jobs.define  # type: ignore[call-overload, untyped-decorator]
        def send_email(ctx: Any, payload: Any) -> None: ...


def one_argument(payload: Any) -> None: ...


def three_arguments(ctx: Any, payload: Any, more: Any) -> None: ...


async def no_arguments() -> None: ...


def a_required_keyword(ctx: Any, payload: Any, *, more: Any) -> None: ...


@pytest.mark.parametrize("handler", [one_argument, three_arguments, no_arguments, a_required_keyword])
def test_a_handler_that_cannot_take_context_and_payload_is_refused(jobs: Jobs, handler: Any) -> None:
    with pytest.raises(InvalidOption, match=rf"def {handler.__name__}\(ctx, payload\)"):
        jobs.define("say", handler)
    assert jobs.definitions.get("say") is None


def test_a_handler_may_have_further_arguments_with_defaults(jobs: Jobs) -> None:
    def defaults(ctx: Any, payload: Any, more: int = 1, *rest: Any, **named: Any) -> None: ...

    assert jobs.define("defaults", defaults).name == "defaults"
    assert jobs.define("any", lambda *arguments: None).name == "any"
    assert jobs.define("builtin", max).name == "builtin"
    assert jobs.define("partial", partial(three_arguments, more=1)).name == "partial"


@pytest.mark.parametrize("name", ["", " ", "n" * 129, "a\0", "\ud800", None, 5])
def test_a_name_that_cannot_be_stored_is_refused(jobs: Jobs, name: Any) -> None:
    with pytest.raises(InvalidOption, match="name="):
        jobs.define(name, top_level)


def test_what_cannot_be_called_is_no_handler(jobs: Jobs) -> None:
    with pytest.raises(InvalidOption, match="handler="):
        jobs.define("say", "top_level")  # type: ignore[call-overload]


def _yields(ctx: Any, payload: Any) -> Any:
    yield payload


async def _yields_later(ctx: Any, payload: Any) -> Any:
    yield payload


@pytest.mark.parametrize("handler", [_yields, _yields_later])
def test_a_handler_with_a_yield_is_refused_because_calling_it_runs_nothing(jobs: Jobs, handler: Any) -> None:
    with pytest.raises(InvalidOption, match="has a yield"):
        jobs.define("say", handler)


def test_only_a_policy_of_its_own_is_stored(jobs: Jobs) -> None:
    assert jobs.define("plain", top_level).retry_json is None
    assert jobs.define("same", top_level, retry=Retry()).retry_json is None
    assert jobs.define("own", top_level, retry=Retry(max_attempts=9)).retry_json is not None


def test_what_a_handler_answers_is_checked_when_it_is_made() -> None:
    assert (Snooze(5).seconds, RetryLater(after=5).after, Cancel().reason) == (5, 5, "cancelled by its handler")
    for make in (lambda: Snooze(-1), lambda: Snooze(float("nan")), lambda: RetryLater(after=-1)):
        with pytest.raises(InvalidOption):
            make()
    assert "\0" not in Cancel("a\0b").reason
