"""A retry policy is a value: it decides alike everywhere, and refuses what cannot work."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sloppyjobs.domain.retry import NO_RETRY, Retry
from sloppyjobs.errors import InvalidOption

DURATIONS = st.floats(min_value=0, max_value=1e308, allow_nan=False)
RANDOM = st.floats(min_value=0, max_value=1, exclude_max=True)
BACKOFFS = st.sampled_from(["none", "fixed", "linear", "exponential"])
POLICIES: st.SearchStrategy[Retry] = st.builds(
    Retry,
    max_attempts=st.integers(1, 1_000_000),
    backoff=BACKOFFS,
    initial=DURATIONS,
    maximum=DURATIONS,
    jitter=st.booleans(),
    retry_on=st.sampled_from([Exception, (OSError, ValueError), ("app.Gone",)]),
    give_up_on=st.sampled_from([(), KeyError, "app.Final"]),
)


class Outer:
    class InnerError(ValueError):
        pass


def twice(attempt: int) -> float:
    return attempt * 2.0


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        ("none", [0, 0, 0, 0]),
        ("fixed", [3, 3, 3, 3]),
        ("linear", [3, 6, 9, 10]),
        ("exponential", [3, 6, 10, 10]),
        (twice, [2, 4, 6, 8]),
    ],
)
def test_each_backoff_grows_in_its_way_up_to_the_maximum(backoff: Any, delays: list[float]) -> None:
    policy = Retry(backoff=backoff, initial=3, maximum=10, jitter=False)
    assert [policy.delay(n, 0.0) for n in (1, 2, 3, 4)] == delays


@given(POLICIES, st.integers(1, 10**6), RANDOM)
def test_a_delay_is_a_number_between_nothing_and_the_maximum(policy: Retry, n: int, random: float) -> None:
    delay = policy.delay(n, random)
    assert isinstance(policy.maximum, float)
    assert 0 <= delay <= policy.maximum


@given(POLICIES, st.integers(1, 10**6), RANDOM)
def test_jitter_stays_in_the_upper_half_of_the_delay(policy: Retry, n: int, random: float) -> None:
    sure = Retry(backoff=policy.backoff, initial=policy.initial, maximum=policy.maximum, jitter=False).delay(n, random)
    jittered = Retry(backoff=policy.backoff, initial=policy.initial, maximum=policy.maximum).delay(n, random)
    assert 0.5 * sure <= jittered <= sure


@given(BACKOFFS, DURATIONS, st.integers(1, 10**6))
def test_a_later_attempt_never_waits_less(backoff: Any, initial: float, n: int) -> None:
    policy = Retry(backoff=backoff, initial=initial, jitter=False)
    assert policy.delay(n, 0) <= policy.delay(n + 1, 0)


def test_an_attempt_number_beyond_every_float_still_meets_the_cap() -> None:
    for backoff in ("linear", "exponential"):
        policy = Retry(backoff=backoff, jitter=False)
        assert policy.delay(10**400, 0) == 3600


def test_the_cap_wins_over_a_larger_initial_delay() -> None:
    assert Retry(initial=60, maximum=5, jitter=False).delay(1, 0) == 5


def test_durations_may_be_timedeltas() -> None:
    policy = Retry(initial=timedelta(seconds=2), maximum=timedelta(minutes=1))
    assert policy == Retry(initial=2, maximum=60)


def test_a_callable_may_give_a_timedelta() -> None:
    assert Retry(backoff=lambda n: timedelta(minutes=n), jitter=False).delay(2, 0) == 120


def test_a_callable_that_gives_infinity_meets_the_cap() -> None:
    assert Retry(backoff=lambda n: math.inf, jitter=False).delay(1, 0) == 3600


@pytest.mark.parametrize("nonsense", [-1, math.nan, -math.inf, "5", None, True, timedelta(seconds=-1)])
def test_a_callable_that_gives_nonsense_is_named(nonsense: Any) -> None:
    def wild(attempt: int) -> Any:
        return nonsense

    with pytest.raises(InvalidOption, match="wild"):
        Retry(backoff=wild).delay(1, 0)


def test_a_callable_that_raises_is_named() -> None:
    def broken(attempt: int) -> float:
        raise KeyError("x")

    with pytest.raises(InvalidOption, match=r"broken.*KeyError"):
        Retry(backoff=broken).delay(1, 0)


@pytest.mark.parametrize(("attempt", "random"), [(0, 0.5), (1, 1.0), (1, -0.1), (1, math.nan)])
def test_a_delay_of_no_attempt_or_no_chance_is_refused(attempt: int, random: float) -> None:
    with pytest.raises(InvalidOption):
        Retry().delay(attempt, random)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", 1_000_001),
        ("max_attempts", True),
        ("max_attempts", 2.0),
        ("max_attempts", "3"),
        ("backoff", "random"),
        ("backoff", None),
        ("backoff", ["none"]),
        ("initial", -1),
        ("initial", math.nan),
        ("initial", math.inf),
        ("initial", 10**400),
        ("initial", True),
        ("initial", "1"),
        ("maximum", timedelta(seconds=-1)),
        ("maximum", None),
        ("jitter", 1),
        ("retry_on", int),
        ("retry_on", (Exception, 5)),
        ("retry_on", None),
        ("retry_on", ValueError("an instance")),
        ("give_up_on", ""),
    ],
)
def test_a_field_that_cannot_work_is_refused_by_name_and_value(field: str, value: object) -> None:
    with pytest.raises(InvalidOption) as error:
        Retry(**{field: value})  # type: ignore[arg-type]
    assert f"{field}={value!r}"[:100] in str(error.value)
    assert "expected" in str(error.value)


def test_a_single_class_is_made_a_tuple() -> None:
    policy = Retry(retry_on=OSError, give_up_on=FileNotFoundError)
    assert (policy.retry_on, policy.give_up_on) == ((OSError,), (FileNotFoundError,))


def test_subclasses_are_retried_like_their_bases() -> None:
    assert Retry(retry_on=OSError).retries(ConnectionResetError())
    assert not Retry(retry_on=OSError).retries(ValueError())


def test_giving_up_wins_over_retrying() -> None:
    policy = Retry(retry_on=OSError, give_up_on=FileNotFoundError)
    assert policy.retries(PermissionError())
    assert not policy.retries(FileNotFoundError())


def test_what_is_no_exception_proper_is_not_retried_by_default() -> None:
    assert not Retry().retries(KeyboardInterrupt())


@given(POLICIES, st.sampled_from([OSError(), ValueError(), KeyError(), Outer.InnerError(), SystemExit()]))
def test_a_restored_policy_equals_and_decides_like_the_original(policy: Retry, exc: BaseException) -> None:
    restored = Retry.from_json(policy.to_json())
    assert restored == policy
    assert hash(restored) == hash(policy)
    assert restored.retries(exc) == policy.retries(exc)
    assert restored.to_json() == policy.to_json()


def test_a_nested_class_is_known_by_its_qualified_name() -> None:
    policy = Retry.from_json(Retry(give_up_on=Outer.InnerError).to_json())
    assert policy.give_up_on == (f"{__name__}.Outer.InnerError",)
    assert not policy.retries(Outer.InnerError())


def test_a_callable_backoff_is_given_back_at_restoring() -> None:
    text = Retry(backoff=twice, jitter=False).to_json()
    assert Retry.from_json(text, backoff=twice).delay(3, 0) == 6
    assert Retry.from_json(text).backoff == "exponential"


def test_a_named_backoff_is_kept_when_a_callable_is_offered() -> None:
    assert Retry.from_json(Retry(backoff="fixed").to_json(), backoff=twice).backoff == "fixed"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"max_attempts":"3"}', '{"max_attempts":0}', '{"backoff":"x"}'])
def test_text_that_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption):
        Retry.from_json(text)


def test_the_default_knows_itself_also_when_restored() -> None:
    assert Retry().is_default
    assert Retry.from_json(Retry().to_json()).is_default
    assert not NO_RETRY.is_default


def test_no_retry_is_one_attempt() -> None:
    assert NO_RETRY.max_attempts == 1
    assert NO_RETRY.delay(1, 0.5) == 0


def test_a_policy_differs_from_other_things() -> None:
    assert Retry() != "retry"
