#!/usr/bin/env python3
"""Tests of the arithmetic in cost.py: a wrong division there would put a wrong figure in the README.

Measuring itself is not tested here; it needs a quiet machine. Ends with "cost: N passed, N failed".
"""

import sys
import unittest

import cost


def sample(proxy_us=0.0, server_us=1.0, user=0.0, system=1.0, requests=1_000_000):
    """A visit by its costs per request in microseconds."""
    return cost.Sample(
        requests=requests, seconds=2.0, proxy=proxy_us * requests / 1e6, proxy_user=user,
        proxy_system=system, server=server_us * requests / 1e6, other_cores=0.0, stolen_cores=0.0,
    )  # fmt: skip


class Figures(unittest.TestCase):
    def test_costs_are_medians_per_request(self):
        row = cost.figures([sample(4.0), sample(9.0), sample(5.0)])
        self.assertAlmostEqual(row["cpu_us"], 5.0)
        self.assertAlmostEqual(row["server_us"], 1.0)
        self.assertAlmostEqual(row["krps"], 500.0)
        self.assertAlmostEqual(row["spread"], 1.0)

    def test_the_user_part_comes_from_the_sums_of_all_rounds(self):
        # Ticks of one short round alone would say 0 % or 100 %.
        row = cost.figures([sample(4.0, user=0.0, system=3.0), sample(4.0, user=1.0, system=0.0)])
        self.assertAlmostEqual(row["user_us"], 1.0)

    def test_a_direct_connection_has_no_proxy_cost(self):
        row = cost.figures([sample(0.0, server_us=7.0, system=0.0)])
        self.assertEqual((row["cpu_us"], row["user_us"]), (0.0, 0.0))


class Ratios(unittest.TestCase):
    def test_a_ratio_is_taken_within_rounds(self):
        # The machine became twice as slow after the first round: both medians over all rounds
        # would mix the two speeds, the ratio within each round is one half throughout.
        mine, theirs = [sample(2.0), sample(4.0), sample(4.0)], [sample(4.0), sample(8.0), sample(8.0)]
        self.assertAlmostEqual(cost.ratio(mine, theirs, "cpu"), 0.5)

    def test_user_parts_are_compared_as_times_not_as_shares(self):
        mine, theirs = [sample(2.0, user=0.5, system=0.5)], [sample(8.0, user=0.5, system=0.5)]
        self.assertAlmostEqual(cost.ratio(mine, theirs, "user"), 0.25)

    def test_nothing_is_compared_with_a_partner_without_that_cost(self):
        self.assertIsNone(cost.ratio([sample(2.0)], [sample(0.0)], "cpu"))


class Limits(unittest.TestCase):
    def rows(self, mine_us, server_us=0.3):
        return {
            ("GET", 1): {
                "respool": [sample(mine_us, server_us=server_us)],
                "predixy": [sample(10.0)],
                "direct": [sample(0.0, server_us=1.0)],
            }
        }

    def test_at_the_limit_is_held_and_above_is_missed(self):
        self.assertTrue(cost.check(self.rows(9.5), ["respool"])[1])
        lines, good = cost.check(self.rows(9.6), ["respool"])
        self.assertFalse(good)
        self.assertTrue(any(line.startswith("FAIL") and "predixy" in line for line in lines))

    def test_the_servers_cost_is_judged_against_a_direct_connection(self):
        self.assertFalse(cost.check(self.rows(9.0, server_us=0.36), ["respool"])[1])

    def test_an_absent_peer_is_said_and_is_no_failure(self):
        lines, good = cost.check(self.rows(9.0), ["respool"])
        self.assertTrue(good)
        self.assertTrue(any(line.startswith("skip") and "nutcracker" in line for line in lines))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=0).result
    wrong = len(result.failures) + len(result.errors)
    print(f"cost: {result.testsRun - wrong} passed, {wrong} failed")
    sys.exit(1 if wrong else 0)
