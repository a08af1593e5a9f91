"""The rows that new jobs have besides their own, as arrays: those of business keys and of tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sloppyjobs.domain.model import NewJob, terms_by
from sloppyjobs.storage.dialects.postgres.arrays import Array, array, moment_array, moments, text_array
from sloppyjobs.storage.jobs import rows
from sloppyjobs.storage.jobs.insert import first_of_each_key, keyed
from sloppyjobs.storage.jobs.keys import business_keys, key_rows
from sloppyjobs.storage.schema.columns import Kind

# In the order of the keys, so that two who take the same ones wait for each other in one direction.
INSERT_KEYS = """
INSERT INTO {keys} (key, job_id, until_start, reserved_until, created_at)
SELECT unnest(%(keys)s::text[]), unnest(%(ids)s::text[]), unnest(%(until_start)s::int4[]),
       unnest(%(reserved_until)s::timestamptz[]), %(now)s::timestamptz
"""
INSERT_TAGS = """
INSERT INTO {tags} (tag, created_at, job_id)
SELECT unnest(%(tags)s::text[]), unnest(%(created_at)s::timestamptz[]), unnest(%(ids)s::text[])
"""
# A join, and not = ANY, whose plan may compare each row with each key.
TAKEN_BUSINESS_KEY = """
SELECT 1 FROM unnest(%(keys)s::text[]) AS given(key)
WHERE EXISTS (SELECT FROM {keys} k WHERE k.key = given.key) LIMIT 1
"""


def only_keys_and_tags(new: Sequence[NewJob]) -> bool:
    """Whether these jobs have no other rows, take no other's place, and no two of them have the same key."""
    different = terms_by(new, "depends_on", "supersedes", "expires", "batch_id")
    if any(one.depends_on or one.supersedes or one.expires is not None or one.batch_id for one in different):
        return False
    keys = business_keys(new)
    return len(set(keys)) == len(keys) and (not keyed(new) or len(first_of_each_key(new)) == len(new))


def key_values(new: Sequence[NewJob], keys: Array, now: datetime, encoding: str) -> Mapping[str, Any]:
    """What ``INSERT_KEYS`` takes for jobs of which some have business keys, which are given in their order."""
    _, ids, until_start, reserved_until = zip(*key_rows(new, now), strict=True)
    return {
        "keys": keys,
        "ids": text_array(ids, encoding),
        "until_start": array(Kind.WHOLE, until_start, encoding),
        "reserved_until": array(Kind.INSTANT, reserved_until, encoding),
        "now": now,
    }


def tag_values(new: Sequence[NewJob], now: datetime, step: timedelta, encoding: str) -> Mapping[str, Array] | None:
    """What ``INSERT_TAGS`` takes; None where no job has a tag. Each job is created a step after the one before."""
    if all(one.tags is None for one in terms_by(new, "tags")):
        return None
    texts = [job.terms.tags for job in new]
    words = {text: rows.words(text) for text in set(texts)}
    created = moments(now, step, len(new))
    return {
        "tags": text_array([tag for text in texts for tag in words[text]], encoding),
        "created_at": moment_array([one for text, one in zip(texts, created, strict=True) for _ in words[text]]),
        "ids": text_array([job.id for job, text in zip(new, texts, strict=True) for _ in words[text]], encoding),
    }
