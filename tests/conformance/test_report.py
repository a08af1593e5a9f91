"""The page that ``make conformance-report`` writes."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

import report

XML = """<testsuites><testsuite>
<testcase name="test_a_key_lets_one_job_in[sqlite]"/>
<testcase name="test_a_key_lets_one_job_in[mariadb]"><failure message="assert 1 == 2&#10;more"/></testcase>
<testcase name="test_a_key_lets_one_job_in[sqlserver]"><skipped message="no SQL Server"/></testcase>
<testcase name="test_what_the_end_of_a_parent_means[postgres-success-dead]"/>
<testcase name="test_the_database_says_which_version_it_is[sqlite]">
  <properties><property name="version" value="3.40.1"/><property name="driver" value="pysqlite"/></properties>
</testcase>
<testcase name="test_a_pure_function"/>
</testsuite></testsuites>"""


def test_every_test_of_the_suite_belongs_to_one_part() -> None:
    named = [name for part in report.PARTS for name in report._tests_of(part)]
    assert len(named) == len(set(named))
    assert set(named) == {name for name in vars(report.conformance) if name.startswith("test_")}


def test_the_page_counts_what_became_of_each_test() -> None:
    cases = list(report.read(ElementTree.fromstring(XML)))
    assert [(case.database, case.outcome) for case in cases] == [
        ("sqlite", "passed"),
        ("mariadb", "failed"),
        ("sqlserver", "skipped"),
        ("postgres", "passed"),
        ("sqlite", "passed"),
    ]
    page = report.page(cases, datetime(2030, 1, 31, tzinfo=UTC))
    assert "on 31 January 2030" in page
    assert "| version, driver | 3.40.1, pysqlite | not at hand | not at hand | not at hand |" in page
    assert "| Enqueueing, keys, what is refused | 1 | 0 | 0, 1 failed | 0, 1 skipped |" in page
    assert "| SQL Server | no SQL Server | `test_a_key_lets_one_job_in` |" in page
